"""Authentication by the tokens of forges (docs/protocol.md, "Authentication", rule 6)."""

import re
from dataclasses import dataclass
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.concurrency.periodic import run_periodically
from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason, Unauthenticated, Unavailable
from services.common.token_prefix import TOKEN_PREFIX
from services.database.transactions import Database
from services.locks.access.identities import user_of
from services.locks.access.policy import Role
from services.locks.access.third_parties import Asker
from services.locks.access.tokens import token_hash
from services.locks.audit.recorder import acting
from services.locks.forges import roles
from services.locks.forges.look_up import Report
from services.locks.forges.lookups import ForgeLookups
from services.locks.forges.records import Tied, find_tied
from services.locks.forges.roles import KnownToken
from services.locks.models import FORCED_BY_WRITERS, User
from services.locks.repositories import create_repository
from services.locks.settings import LocksSettings
from services.locks.validation import check_new_repository_name, is_repository_name

# Such tokens can be the value of a header.
_CREDENTIAL = re.compile(r"[\x21-\x7e]{1,4096}", re.ASCII)
# Roles are renewed so much before their end, because a request goes on for a while after its check.
_MARGIN_SECONDS = 2.0
_STEP_SECONDS = 30.0
_CLEANING_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Admitted:
    """The token of a forge whose role is known now, and the seconds for which the answer may be kept."""

    token_id: int
    keep_seconds: float


class ForgeAuthentication:
    """Admits the tokens of forges in the repositories that are tied to them."""

    def __init__(self, database: Database, settings: LocksSettings, lookups: ForgeLookups) -> None:
        self._database = database
        self._settings = settings
        self._lookups = lookups
        self._margin = min(_MARGIN_SECONDS, settings.forge_granted_seconds / 2)

    async def keep_cleaning(self) -> None:
        """Delete tokens that are not used any more, until cancelled."""

        async def work() -> None:
            await self._database.run(roles.delete_unused)

        await run_periodically(work, _CLEANING_SECONDS, trouble="unused tokens of forges are not deleted")

    async def admit(self, repository: str, credential: str, asker: Asker) -> tuple[User, Admitted]:
        """Return the user of a credential that is new here, after a look-up at the forge of the repository.

        Raises `NotFound` (REPOSITORY_NOT_FOUND) if neither the forge gives its owner a role nor anybody knows the owner
        here, and the errors of `ForgeLookups.look_up`.
        """
        tied = await self._find_tied(repository) if _is_sent(credential) else None
        if tied is None:
            raise _not_valid()
        report = await self._look_up(tied, credential, asker)

        async def work(connection: AsyncConnection) -> tuple[User, Admitted]:
            user = await _user_of(connection, tied, report)
            token_id = await roles.put_token(
                connection, user_id=user.id, forge_id=tied.forge.id, token_hash=token_hash(credential)
            )
            if token_id is None:
                raise _not_valid()
            return user, await self._write(connection, tied, report, token_id)

        login = report.account.login if report.account is not None else ""
        with acting(login, f"forge {tied.forge.name}"):
            return await self._database.run(work)

    async def renew(self, repository: str, credential: str, known: KnownToken) -> Admitted:
        """Return a known token once its role is valid, after a look-up at the forge of the repository if one is due.

        The look-up needs the credential of the token. Raises the errors of `admit`.
        """
        tied = await self._find_tied(repository)
        if tied is None or known.forge_id != tied.forge.id:
            raise _not_valid()
        repository_id = tied.repository_id or 0
        asking = partial(roles.role_seconds, token_id=known.id, repository_id=repository_id)
        left = await self._database.run(asking) - self._margin
        if left > 0:
            return Admitted(known.id, left)
        if not _is_sent(credential) or token_hash(credential) != known.token_hash:
            raise Unauthenticated(Reason.BAD_CREDENTIALS, "the token of the forge has to be shown again")
        try:
            report = await self._look_up(tied, credential, None)
        except Unauthenticated:
            await self._database.run(partial(roles.delete_token, token_id=known.id))
            raise
        except Unavailable:
            if (prolonged := await self._prolonged(known, repository_id)) is None:
                raise
            return prolonged
        return await self._database.run(partial(self._write, tied=tied, report=report, token_id=known.id))

    async def _find_tied(self, repository: str) -> Tied | None:
        if not is_repository_name(repository):
            return None
        return await self._database.run(partial(find_tied, repository=repository))

    async def _look_up(self, tied: Tied, credential: str, asker: Asker | None) -> Report:
        lowest = Role.WRITE if tied.restricted or tied.repository_id is None else Role.READ
        return await self._lookups.look_up(tied.forge, credential, tied.forge_repository, asker=asker, lowest=lowest)

    async def _prolonged(self, known: KnownToken, repository_id: int) -> Admitted | None:
        """Let a role go on while the forge is away, if it may."""
        settings = self._settings
        granted = settings.forge_granted_seconds
        prolonging = partial(
            roles.prolong_role,
            token_id=known.id,
            repository_id=repository_id,
            step=min(_STEP_SECONDS, granted) + self._margin,
            lifetime=granted + settings.forge_stale_seconds + self._margin,
        )
        left = await self._database.run(prolonging) - self._margin
        return Admitted(known.id, left) if left > 0 else None

    async def _write(self, connection: AsyncConnection, tied: Tied, report: Report, token_id: int) -> Admitted:
        """Write down what a look-up has told."""
        written = tied if tied.repository_id else await _created(connection, tied, report)
        granted, age = self._settings.forge_granted_seconds, report.age
        await roles.put_role(connection, token_id=token_id, tied=written, role=report.role, age=age, granted=granted)
        left = granted - age - self._margin if report.role else self._lookups.remembered_seconds(report)
        return Admitted(token_id, max(0.0, left))


def _is_sent(credential: str) -> bool:
    """Return whether a credential may be sent to a forge: it is none of ours, and can be the value of a header."""
    return _CREDENTIAL.fullmatch(credential) is not None and not credential.startswith(TOKEN_PREFIX)


async def _user_of(connection: AsyncConnection, tied: Tied, report: Report) -> User:
    """Return the user of an account, and add one where there is none yet."""
    forge, account = tied.forge, report.account
    if account is None:
        raise _not_valid()
    # An account that has no role is none of ours, or anybody with an account there could add users here.
    if not (report.role or tied.public) and not await roles.is_known_account(
        connection, forge_id=forge.id, subject=account.subject
    ):
        raise _not_found()
    return await user_of(
        connection, subject=account.subject, login=account.login, provider=forge.name, forge_id=forge.id
    )


async def _created(connection: AsyncConnection, tied: Tied, report: Report) -> Tied:
    """Return the repository that is made on its first use; of two at once, both get the same.

    Raises `NotFound` (REPOSITORY_NOT_FOUND) if the credential may not write, or the name cannot be had.
    """
    if report.role is None:
        raise _not_found()
    try:
        check_new_repository_name("name", tied.name)
        await create_repository(
            connection,
            tied.name,
            public=False,
            forced_unlock=FORCED_BY_WRITERS,
            forge_id=tied.forge.id,
            forge_repository=tied.forge_repository,
        )
    except InvalidArgument as error:
        raise _not_found() from error
    except AlreadyExists:
        # Found next, unless its name differs in case.
        pass
    found = await find_tied(connection, tied.name)
    if found is None or found.repository_id is None or found.forge.id != tied.forge.id:
        raise _not_found()
    return found


def _not_valid() -> Unauthenticated:
    return Unauthenticated(Reason.BAD_CREDENTIALS, "the token is not valid")


def _not_found() -> NotFound:
    return NotFound(Reason.REPOSITORY_NOT_FOUND, "the repository does not exist, or you may not read it")
