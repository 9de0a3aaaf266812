"""Runs of cases against one server: each within its time, and with what they made removed in the end."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import httpx

from services.conformance.answer import Answer
from services.conformance.blobs import new_blob
from services.conformance.case import Case
from services.conformance.client import Client, Credentials, new_http
from services.conformance.dialects import Dialect
from services.conformance.ledger import Ledger
from services.conformance.outcome import Blocked, Finding, NotApplicable, Outcome
from services.conformance.redaction import Redactor
from services.conformance.report import Report, Result
from services.conformance.site import Site

_CLEAN_SECONDS = 30.0


class NotUsable(Exception):
    """The server, or the base address, cannot be tested with these users; the message says why."""


@dataclass(frozen=True)
class Target:
    """The base address of the repository under test, its users, and the dialect."""

    url: str
    dialect: Dialect
    first: Credentials | None = None
    second: Credentials | None = None
    ref: str | None = None


async def run(
    target: Target,
    cases: Sequence[Case],
    *,
    seconds: float,
    on_result: Callable[[Result], None] = lambda _: None,
) -> Report:
    """Run the cases one after another, each for so many seconds at most, and return the report.

    A case that fails does not stop the others. If the task is cancelled, the report has the results so far. In any case
    the locks that the run has made are removed. Raises `NotUsable` before the first case.
    """
    ledger, report = Ledger(), Report(target.url, target.dialect.name)
    async with new_http(seconds) as http:
        try:
            site = await _open(target, http, ledger, seconds)
            for case in cases:
                result = await _result(case, site, seconds)
                report.results.append(result)
                on_result(result)
                async with asyncio.timeout(_CLEAN_SECONDS):
                    await ledger.remove_locks()
        except asyncio.CancelledError:
            report.is_stopped = True
        except TimeoutError:
            # Only the removal of locks is outside of a case: the rest of the run could make but more.
            report.is_stopped = True
        finally:
            report.left_locks = await _swept(ledger)
            report.left_objects = ledger.objects
    return report


async def _swept(ledger: Ledger) -> list[str]:
    try:
        async with asyncio.timeout(_CLEAN_SECONDS):
            return await ledger.sweep()
    except TimeoutError:
        return ledger.paths()


async def _open(target: Target, http: httpx.AsyncClient, ledger: Ledger, seconds: float) -> Site:
    """Return the site, after each user has been heard by the server."""
    known = [credentials for credentials in (target.first, target.second) if credentials is not None]
    secrets = [secret for one in known for secret in (one.password, one.authorization.partition(" ")[2])]
    client = Client(http, target.url, target.dialect, ledger, Redactor(secrets), target.first, target.ref)
    other = None if target.second is None else replace(client, credentials=target.second)
    try:
        async with asyncio.timeout(seconds):
            _check_first(await _status(client.batch("upload", new_blob().entry)), target)
            if other is not None:
                _check_second(await _status(other.batch("upload", new_blob().entry)))
            locks = await _status(client.verify_locks())
            nobody = await _status(client.anonymous().batch("upload", new_blob().entry))
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise NotUsable(f"no answer: {str(error) or type(error).__name__}") from error
    except Finding as finding:
        raise NotUsable(str(finding)) from finding
    return Site(client, other, has_locks=locks not in (404, None), needs_credentials=nobody != 200)


async def _status(asking: Awaitable[Answer]) -> int | None:
    """Return the status of an answer; None for one that a server may have for reasons of its own, such as 501."""
    try:
        return (await asking).status
    except NotApplicable:
        return None


def _check_first(status: int | None, target: Target) -> None:
    """Raise `NotUsable` unless the first user may upload, as far as the status of a batch tells."""
    match status:
        case 401 if target.first is None:
            raise NotUsable("the server asks for credentials; expected a user")
        case 401:
            raise NotUsable("the server does not accept the credentials of the first user (401)")
        case 403:
            raise NotUsable("the first user may not upload (403); expected a user who may read and write")
        case 404 | 405:
            raise NotUsable(f"no repository is there for the first user ({status})")


def _check_second(status: int | None) -> None:
    # Not by a batch for download: some servers answer one with 404 for its objects.
    match status:
        case 401:
            raise NotUsable("the server does not accept the credentials of the second user (401)")
        case 404:
            raise NotUsable("no repository is there for the second user (404)")


async def _result(case: Case, site: Site, seconds: float) -> Result:
    began = time.monotonic()
    outcome, message, exchange = Outcome.FAILED, "", ""
    try:
        async with asyncio.timeout(seconds):
            await case.run(site)
        outcome = Outcome.PASSED
    except Finding as finding:
        message, exchange = str(finding), finding.exchange
    except NotApplicable as reason:
        outcome, message = Outcome.SKIPPED, str(reason)
    except Blocked as blocked:
        outcome, message, exchange = Outcome.BLOCKED, str(blocked), blocked.exchange
    except TimeoutError:
        message = f"expected an end within {seconds:g} s; got none"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        message = f"expected an answer; got {str(error) or type(error).__name__}"
    except Exception as error:  # whatever a server answers, the other cases run
        message = f"expected an answer of the interface; got one that raises {type(error).__name__}: {error}"
    return Result(case, outcome, time.monotonic() - began, site.first.redactor.text(message), exchange)
