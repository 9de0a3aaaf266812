"""The command `towpath gc`: removes the objects of a repository that git names no more."""

import asyncio
import hashlib
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2 as storage

from services.cli.connection import Administration, Target
from services.cli.errors import CommandError
from services.cli.garbage.oid_file import ListEnd, read_list
from services.cli.garbage.report import Report
from services.cli.garbage.turns import Turns
from services.cli.options import Data, Json, Repository, Server, parse_span
from services.cli.pointers.named import add_named
from services.cli.pointers.oid_spool import OidSpool

_MESSAGE_OIDS = 10_000
# A list may be a day old at most when it arrives.
_MAX_LISTING_SECONDS = 20 * 3600.0
_MAX_AGE_SECONDS = 24 * 3600.0
_MAX_EVERY = timedelta(days=366)
_REASON = "no ref of the git repository names it"
_SHORT_SPAN = re.compile(r"([0-9]{1,6})(s|m)|0", re.ASCII)
_PERCENT = re.compile(r"([0-9]{1,3})%?", re.ASCII)


@dataclass(frozen=True)
class _Source:
    """The source of what is retained: a git repository, or a file."""

    git: str | None
    file: Path | None

    async def read(self, spool: OidSpool) -> tuple[float, ListEnd | None]:
        """Add what is retained; return the time of `time.monotonic` at which the listing began, and a file's end."""
        if self.file is not None:
            age = max(0.0, time.time() - self.file.stat().st_mtime)
            if age > _MAX_AGE_SECONDS:
                raise CommandError(f"{self.file}: the list is more than a day old; make it anew")
            return time.monotonic() - age, read_list(self.file, spool)
        began = time.monotonic()
        try:
            async with asyncio.timeout(_MAX_LISTING_SECONDS):
                await add_named(self.git or "", spool)
        except TimeoutError as error:
            raise CommandError(f"{self.git}: git took too long") from error
        return began, None


def gc(
    repository: Repository,
    git: Annotated[
        str | None,
        typer.Option(
            metavar="DIR_OR_URL",
            help="The git repository: a folder, or a URL that is cloned for a while. All of its refs are read, and in "
            "a folder reflogs, stashes and what is checked out.",
            show_default=False,
        ),
    ] = None,
    retain: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A list instead: a line for the id of each object to keep, and `end COUNT DIGEST`.",
            show_default=False,
        ),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Remove the garbage; it stays in the bin for a time.")] = False,
    grace: Annotated[
        str, typer.Option(metavar="SPAN", help="Keep what came or was used within this time, such as 12h or 4w.")
    ] = "14d",
    most: Annotated[
        str, typer.Option(metavar="PERCENT", help="Remove nothing if more than this share is garbage.")
    ] = "50%",
    every: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="Stay, and collect whenever this time is over, such as 7d. Of several such commands one does it.",
            show_default=False,
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the garbage.")] = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Tell which objects of a repository are garbage, because no ref of its git repository names them any more."""
    if (git is None) == (retain is None):
        raise CommandError("expected --git or --retain")
    terms = storage.CollectionTerms(
        grace_seconds=_grace_seconds(grace), most_percent=_percent(most), apply=apply, list=list_
    )
    span = _every(every)
    if span is not None and (git is None or not apply):
        raise CommandError("expected --git and --apply with --every")

    async def collect(admin: Administration) -> None:
        report = Report(repository, is_listed=list_, as_json=as_json)
        with OidSpool() as spool:
            # What is wrong with the name or the token is told before hours of work.
            await admin.call(admin.stub.ListUsage, pb.ListUsageRequest(repository=repository))
            began, end = await _Source(git, retain).read(spool)
            header = pb.CollectGarbageRequest.Header(repository=repository, terms=terms, reason=_REASON)
            await _collect(admin, _messages(header, began, spool, end), report)

    async def work(admin: Administration) -> None:
        if span is None:
            await collect(admin)
        else:
            await Turns(admin, repository, span).run(lambda: collect(admin))

    Target(data, server).run(lambda admin: _stoppable(work(admin)))


def _every(text: str | None) -> timedelta | None:
    span = None if text is None else parse_span(text)
    if text is not None and (span is None or span > _MAX_EVERY):
        raise typer.BadParameter(f"expected such as 12h, 7d or 4w, at most a year, got {text!r}", param_hint="--every")
    return span


def _grace_seconds(text: str) -> int:
    if (span := parse_span(text)) is not None:
        return int(span.total_seconds())
    match = _SHORT_SPAN.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"expected such as 0, 90s, 30m, 12h, 14d or 4w, got {text!r}", param_hint="--grace")
    return int(timedelta(seconds=int(match[1] or 0) * (60 if match[2] == "m" else 1)).total_seconds())


def _percent(text: str) -> int:
    match = _PERCENT.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= 100:
        raise typer.BadParameter(f"expected such as 50%, from 1% to 100%, got {text!r}", param_hint="--most")
    return int(match[1])


async def _stoppable(work: Awaitable[None]) -> None:
    """Do the work. SIGTERM cancels it, so that its processes and temporary files end with it."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - for mypy: a coroutine runs in a task
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await work
    except asyncio.CancelledError:
        raise CommandError("stopped; the same command goes on") from None


async def _messages(
    header: pb.CollectGarbageRequest.Header, began: float, spool: OidSpool, expected: ListEnd | None
) -> AsyncIterator[pb.CollectGarbageRequest]:
    """Yield the messages of a collection. Raises `CommandError` before the last if the list is not the expected one."""
    # More than it is, because what came meanwhile must not be taken for garbage, and services round down.
    header.terms.listed_seconds_ago = int(time.monotonic() - began) + 2
    yield pb.CollectGarbageRequest(header=header)
    digest, count = hashlib.sha256(), 0
    oids = spool.ascending()
    while part := list(islice(oids, _MESSAGE_OIDS)):
        digest.update("".join(f"{oid}\n" for oid in part).encode())
        count += len(part)
        yield pb.CollectGarbageRequest(retained=storage.RetainedObjects(oids=part))
    found = ListEnd(count, digest.hexdigest())
    if not count:
        raise CommandError("no object is retained, so that everything would be garbage")
    if expected is not None and expected != found:
        raise CommandError(
            f"the list is not whole: its end tells of {expected.count} ids with the digest {expected.digest}, "
            f"and it has {found.count} with {found.digest}"
        )
    yield pb.CollectGarbageRequest(end=storage.RetainedEnd(count=found.count, digest=found.digest))


async def _collect(admin: Administration, messages: AsyncIterator[pb.CollectGarbageRequest], report: Report) -> None:
    result = None
    async with aclosing(admin.exchange("CollectGarbage", messages, pb.CollectGarbageResponse)) as responses:
        async for response in responses:
            match response.WhichOneof("content"):
                case "summary":
                    report.summary(response.summary)
                case "garbage":
                    report.garbage(response.garbage)
                case "result":
                    result = response.result
    report.end(result)
