"""The commands `towpath hook pre-receive`, `post-receive` and `check`, which a git server or a workflow runs."""

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from services.cli.connection import Location, Target
from services.cli.errors import CommandError, NotReached
from services.cli.options import Data, Server
from services.cli.push_hooks.changes import Space, landed_paths, pushed_paths
from services.cli.push_hooks.git import Git, RefUpdate, read_updates
from services.cli.push_hooks.push_client import DEFAULT_SPACE, PushClient, Verdict, is_no_answer
from services.cli.push_hooks.pusher import Pusher, find_pusher, find_repository
from services.cli.push_hooks.report import refusal_lines, release_lines
from services.cli.settings import CommandSettings
from services.cli.user_map import read_user_map
from services.common.errors import ServiceError

# A push of a whole history takes git minutes.
_MAX_SECONDS = 900.0


class OnFailure(StrEnum):
    """The fate of a push while Towpath does not answer."""

    REFUSE = "refuse"
    ALLOW = "allow"


Repository = Annotated[
    str | None,
    typer.Option(
        metavar="REPO",
        help="The repository's name in Towpath; by default TOWPATH_REPOSITORY, or the one that the git server tells.",
        show_default=False,
    ),
]
PusherName = Annotated[
    str | None,
    typer.Option(
        "--pusher",
        metavar="USER",
        help="The user who pushes; by default the one that the git server tells, or TOWPATH_PUSHER.",
        show_default=False,
    ),
]
PusherFrom = Annotated[
    str | None,
    typer.Option(
        metavar="ORIGIN",
        help="Where the users have come from that the git server names, such as 'issuer sso', or '' for users that an "
        "administrator has added; by default TOWPATH_PUSHER_FROM, or the repository's forge, or else ''.",
        show_default=False,
    ),
]
UserMap = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Lines `NAME = USER`: the users of Towpath by their names at the git server; by default TOWPATH_USER_MAP.",
        show_default=False,
    ),
]
Failure = Annotated[
    OnFailure | None,
    typer.Option(
        help="Refuse or allow the push while Towpath does not answer; by default TOWPATH_HOOK_ON_FAILURE, or refuse.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class _Hook:
    """The environment of a hook, and what its options and settings make of it."""

    git: Git
    target: Target
    repository: str
    pusher: Pusher
    origin: str | None

    @classmethod
    def read(
        cls,
        settings: CommandSettings,
        target: Target,
        *,
        repository: str | None,
        pusher: str | None,
        origin: str | None,
        users: Path | None,
        account_id: str | None = None,
    ) -> "_Hook":
        environment = dict(os.environ)
        who = find_pusher(environment, option=pusher, setting=settings.pusher)
        if account_id:
            who = who._replace(account_id=account_id)
        if (users := users or settings.user_map) and (name := read_user_map(users).get(who.name)):
            who = Pusher(name)
        found = find_repository(environment, given=repository or settings.repository)
        return cls(Git(environment), target, found, who, settings.pusher_from if origin is None else origin)

    def run(self, work: Callable[[PushClient], Awaitable[None]]) -> None:
        """Do the work with a connection. Raises `CommandError` and `ServiceError`."""

        async def limited(location: Location) -> None:
            client = PushClient(location, repository=self.repository, pusher=self.pusher, origin=self.origin)
            try:
                async with asyncio.timeout(_MAX_SECONDS):
                    await work(client)
            except TimeoutError:
                raise CommandError(f"git has not told what was pushed within {_MAX_SECONDS:.0f} s") from None
            finally:
                await client.close()

        self.target.reach(limited)


def pre_receive(
    repository: Repository = None,
    pusher: PusherName = None,
    pusher_from: PusherFrom = None,
    user_map: UserMap = None,
    on_failure: Failure = None,
    data: Data = None,
    server: Server = None,
) -> None:
    """Refuse a push that changes what others have locked: the hook of a git server before it accepts a push.

    Git tells on the standard input which refs are pushed. The exit status is 1 for a push that is refused.
    """
    settings = CommandSettings.read()
    hook = _Hook.read(
        settings, Target(data, server), repository=repository, pusher=pusher, origin=pusher_from, users=user_map
    )
    updates = read_updates(sys.stdin.buffer)
    verdict = Verdict()

    async def work(client: PushClient) -> None:
        spaces = await _spaces(hook.git, client, updates)
        for update in updates:
            paths = pushed_paths(hook.git, update, updates=updates, space=spaces(update.ref))
            await client.check(verdict, _text(update.ref), paths)

    _decide(hook, verdict, work, on_failure or OnFailure(settings.hook_on_failure))


def check(
    base: Annotated[str, typer.Option(metavar="COMMIT", help="The commit to merge into.", show_default=False)],
    head: Annotated[str, typer.Option(metavar="COMMIT", help="The commit to be merged.", show_default=False)],
    ref: Annotated[str, typer.Option(metavar="REF", help="The ref that it is to be merged into.")] = "refs/heads/main",
    repository: Repository = None,
    pusher: PusherName = None,
    pusher_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The id of the pusher's account at the forge.", show_default=False),
    ] = None,
    pusher_from: PusherFrom = None,
    user_map: UserMap = None,
    on_failure: Failure = None,
    data: Data = None,
    server: Server = None,
) -> None:
    """Check what a merge would change, in a clone that has both commits: for forges that run no hooks.

    The exit status is 1 if others have locked a path that commits of HEAD change which BASE does not have.
    """
    settings = CommandSettings.read()
    hook = _Hook.read(
        settings,
        Target(data, server),
        repository=repository,
        pusher=pusher,
        origin=pusher_from,
        users=user_map,
        account_id=pusher_id,
    )
    verdict = Verdict()
    for option, commit in (("--base", base), ("--head", head)):
        if commit.startswith("-"):
            raise typer.BadParameter("expected a commit", param_hint=option)

    async def work(client: PushClient) -> None:
        await client.check(verdict, ref, hook.git.changed_by(head, "--not", base, "--"))

    _decide(hook, verdict, work, on_failure or OnFailure(settings.hook_on_failure))


def post_receive(
    repository: Repository = None,
    pusher: PusherName = None,
    pusher_from: PusherFrom = None,
    user_map: UserMap = None,
    data: Data = None,
    server: Server = None,
) -> None:
    """Release the pusher's locks on the pushed paths, where the repository says so: the hook after a push.

    See `towpath repo update --release-on`. The exit status is always 0, because the push has been accepted.
    """
    try:
        settings, target = CommandSettings.read(), Target(data, server)
        hook = _Hook.read(settings, target, repository=repository, pusher=pusher, origin=pusher_from, users=user_map)
        updates = read_updates(sys.stdin.buffer)

        async def work(client: PushClient) -> None:
            for update in updates:
                ref = _text(update.ref)
                reason = f"pushed to {ref} as {update.new[:12]}"
                released = await client.release(ref, landed_paths(hook.git, update), reason=reason)
                _print(release_lines(released, ref))

        if hook.pusher.name:
            hook.run(work)
    except (CommandError, ServiceError, OSError, typer.BadParameter) as error:
        _print([f"towpath: your locks stay as they are: {error}"])


def register(app: typer.Typer) -> None:
    """Add the commands to those of `towpath hook`."""
    app.command("pre-receive")(pre_receive)
    app.command("post-receive")(post_receive)
    app.command("check")(check)


async def _spaces(git: Git, client: PushClient, updates: Sequence[RefUpdate]) -> Callable[[str], Space | None]:
    """Return a function that returns the lock space of a pushed ref; None where the repository has one space alone."""
    pushed = [update.ref for update in updates]
    # Most repositories have one space, and need not list their branches.
    if await client.spaces([_text(ref) for ref in pushed[:1]]) is None:
        return lambda _: None
    tips = await git.tips("refs/heads")
    refs = [*dict.fromkeys([*pushed, *tips])]
    found = await client.spaces([_text(ref) for ref in refs]) or [DEFAULT_SPACE] * len(refs)
    space_of = dict(zip(refs, found, strict=True))
    tips_in: dict[str, list[str]] = defaultdict(list)
    for ref, tip in tips.items():
        tips_in[space_of[ref]].append(tip)
    return lambda ref: Space(space_of[ref] == DEFAULT_SPACE, tips_in[space_of[ref]])


def _decide(
    hook: _Hook, verdict: Verdict, work: Callable[[PushClient], Awaitable[None]], on_failure: OnFailure
) -> None:
    """Do the work, and exit with status 1 if the verdict is a refusal. Raises `CommandError` and `ServiceError`."""
    try:
        hook.run(work)
    except (NotReached, ServiceError) as error:
        if isinstance(error, ServiceError) and not is_no_answer(error):
            raise
        if on_failure is OnFailure.REFUSE:
            raise CommandError(f"the locks cannot be checked, and so the push is refused: {error}") from error
        _print([f"towpath: the locks cannot be checked, and the push is allowed all the same: {error}"])
    if verdict.blocking:
        _print(refusal_lines(verdict, hook.pusher.name))
        raise typer.Exit(1)


def _text(ref: str) -> str:
    """Return a ref as text for a message; no pattern matches one that is not UTF-8."""
    return ref.encode(errors="surrogateescape").decode(errors="replace")


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line, err=True)
