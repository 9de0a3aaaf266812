"""Look-ups at forges as the lock service makes them: bounded in number, joined, and remembered where refused."""

import asyncio
import math
import time
from collections import OrderedDict
from dataclasses import replace
from functools import partial

from services.common.errors import Reason, ResourceExhausted, Unauthenticated, Unavailable
from services.common.lifecycle import cancel_and_wait
from services.common.observability.logs import get_logger
from services.database.transactions import Database
from services.locks import metrics
from services.locks.access.failed_logins import take_share
from services.locks.access.policy import Role
from services.locks.access.third_parties import NOBODY, AddressSlots, Asker, check_may_ask
from services.locks.access.tokens import token_hash
from services.locks.forges import budget
from services.locks.forges.kinds import CredentialRefusedError
from services.locks.forges.look_up import Report, look_up
from services.locks.forges.web import ForgeThrottledError, ForgeUnavailableError, Web
from services.locks.models import Forge
from services.locks.settings import LocksSettings

_MAX_CONCURRENCY = 8
_MAX_OF_ADDRESS = 2
# The parts of the budget for new credentials that one address may use, in the long run and after a pause.
_ADDRESS_SHARE, _ADDRESS_BURST = 1 / 8, 1 / 3
_MAX_REMEMBERED = 10_000
_MAX_RETRY_SECONDS = 300
_FLIGHT_SECONDS = 5.0
# The time for the wait and the look-up, within which a facade still waits for the answer.
_MAX_SECONDS = 10.0

_Key = tuple[int, bytes, str]

_log = get_logger(__name__)


class ForgeLookups:
    """Asks forges. Its owner closes it.

    Refusals are remembered in memory only, by the SHA-256 of the credential. While a forge is away or throttled, it is
    asked nothing until the time that it gave is over. Of the look-ups of new credentials, one address has a quarter of
    those in flight, and an eighth of the budget, at most.
    """

    def __init__(self, database: Database, settings: LocksSettings) -> None:
        self._database = database
        self._settings = settings
        self._web = Web(settings.forge_lookup_seconds)
        # Reports; and, for credentials that are not valid, the right that they lack or "".
        self._remembered: OrderedDict[_Key, tuple[Report | str, float]] = OrderedDict()
        # The times (monotonic) before which a forge, or a share of its budget, or one credential, is not asked.
        self._paused: OrderedDict[tuple[object, ...], tuple[float, str]] = OrderedDict()
        self._flights: dict[tuple[_Key, bool], asyncio.Task[Report]] = {}
        self._turns: dict[int, asyncio.Semaphore] = {}
        self._slots = AddressSlots(_MAX_OF_ADDRESS)

    async def close(self) -> None:
        """End all look-ups and close the connections."""
        await cancel_and_wait(*self._flights.values())
        await self._web.close()

    async def look_up(
        self, forge: Forge, credential: str, repository: str, *, asker: Asker | None, lowest: Role
    ) -> Report:
        """Return what the forge says of a credential, and remember a refusal.

        A role below `lowest` counts as none. A credential without an `asker` is a known one: its account need not be
        asked for, and nobody else than its owner can cause the look-up. Raises `Unauthenticated` (BAD_CREDENTIALS), and
        `Unavailable` with the metadata `retry_after`; for an asker that is over its limit, or has used up its share,
        `ResourceExhausted` (RATE_LIMITED) with it. Both have `undecided` where there is an asker.
        """
        is_known = asker is None
        digest = token_hash(credential)
        key = (forge.id, digest, f"{lowest} {repository.lower()}")
        if isinstance(lacks := self._recall((forge.id, digest, "")), str):
            raise _not_valid(lacks)
        # A report on a credential that was known then lacks the account.
        if isinstance(report := self._recall(key), Report) and (is_known or report.account is not None):
            return report
        flight = self._flights.get((key, is_known))
        if flight is None:
            if asker is not None:
                check_may_ask(asker)
            self._check_paused(forge, digest, is_known=is_known)
            asked = self._ask(forge, credential, repository, key, asker=asker, lowest=lowest)
            flight = self._flights[key, is_known] = asyncio.create_task(asked)
            flight.add_done_callback(partial(self._land, (key, is_known)))
        # Whoever is cancelled leaves the others their answer.
        return await asyncio.shield(flight)

    def remembered_seconds(self, report: Report) -> float:
        """Return the seconds for which a report without a role is remembered."""
        return max(0.0, self._settings.forge_refused_seconds - report.age)

    def _land(self, flight: tuple[_Key, bool], task: asyncio.Task[Report]) -> None:
        self._flights.pop(flight, None)
        if not task.cancelled():
            # Marks an error as seen, because everybody who has waited for it may be gone.
            task.exception()

    async def _ask(
        self, forge: Forge, credential: str, repository: str, key: _Key, *, asker: Asker | None, lowest: Role
    ) -> Report:
        is_known, per_minute = asker is None, self._settings.forge_lookups_per_minute
        if asker is not None and asker.address:
            await self._take_share(forge, asker)
        taking = partial(budget.take, forge_id=forge.id, is_known=is_known, per_minute=per_minute)
        if wait := await self._database.run(taking):
            problem = f"too many credentials are looked up at the forge {forge.name}"
            raise self._pause(forge, ("share", forge.id, is_known), wait, problem, "over_budget", is_known=is_known)
        turn = self._turns.setdefault(forge.id, asyncio.Semaphore(_MAX_CONCURRENCY))
        own = self._slots.of(asker or NOBODY, forge.id)
        seconds, has_turn = self._settings.forge_lookup_seconds, False
        try:
            async with asyncio.timeout(max(1.0, _MAX_SECONDS - seconds)) as limit, own, turn:
                # The forge has its own time, whatever the wait for others has taken.
                limit.reschedule(asyncio.get_running_loop().time() + seconds)
                has_turn = True
                report = await look_up(self._web, forge, credential, repository, with_account=not is_known)
        except CredentialRefusedError as error:
            self._remember((*key[:2], ""), error.lacks, time.monotonic() + self._settings.forge_refused_seconds)
            _count(forge, "bad_credentials")
            raise _not_valid(error.lacks) from error
        except (ForgeUnavailableError, TimeoutError) as error:
            if not has_turn:
                _count(forge, "over_budget")
                raise _unavailable(f"too many look-ups at the forge {forge.name} are under way", 1, is_known) from error
            raise self._pause_after(error, forge, key, is_known=is_known) from error
        if report.role is Role.READ and lowest is not Role.READ:
            report = replace(report, role=None)
        if report.role is None:
            until = report.asked_at + self._settings.forge_refused_seconds
        else:
            # For requests in flight, which found no token: it is in the database from now on, and far from its end.
            until = min(time.monotonic() + _FLIGHT_SECONDS, report.asked_at + self._settings.forge_granted_seconds / 4)
        self._remember(key, report, until)
        _count(forge, "granted" if report.role is not None else "refused")
        return report

    async def _take_share(self, forge: Forge, asker: Asker) -> None:
        """Take a look-up from the share of an address. Raises `ResourceExhausted` (RATE_LIMITED)."""
        per_second = budget.share_per_minute(self._settings.forge_lookups_per_minute, is_known=False) / 60.0
        taking = partial(
            take_share,
            holder=f"forge {forge.id} {asker.address}",
            interval=1 / (_ADDRESS_SHARE * per_second),
            burst=_ADDRESS_BURST * budget.BURST_SECONDS * per_second,
        )
        if wait := await self._database.run(taking):
            _count(forge, "over_budget")
            message = f"too many new credentials from your address are looked up at the forge {forge.name}"
            raise ResourceExhausted(Reason.RATE_LIMITED, message, retry_after=_retry_after(wait), undecided="free")

    def _recall(self, key: _Key) -> Report | str | None:
        told, until = self._remembered.get(key, (None, 0.0))
        return told if time.monotonic() < until else None

    def _remember(self, key: _Key, told: Report | str, until: float) -> None:
        self._remembered[key] = told, until
        self._remembered.move_to_end(key)
        if len(self._remembered) > _MAX_REMEMBERED:
            self._remembered.popitem(last=False)

    def _pause_after(
        self, error: ForgeUnavailableError | TimeoutError, forge: Forge, key: _Key, *, is_known: bool
    ) -> Unavailable:
        """Return the error of a look-up without an answer; ask the forge nothing more for the time that it gave."""
        if isinstance(error, TimeoutError):
            error = ForgeUnavailableError("the forge does not answer in time")
        _log.warning("look-up failed", forge=forge.name, error=str(error), seconds=round(error.seconds))
        paused = ("credential", *key[:2]) if error.of_credential else ("forge", forge.id)
        is_throttled = isinstance(error, ForgeThrottledError)
        problem = f"the forge {forge.name} {'asks for fewer requests' if is_throttled else 'does not answer'}"
        outcome = "throttled" if is_throttled else "unavailable"
        return self._pause(forge, paused, error.seconds, problem, outcome, is_known=is_known)

    def _pause(
        self, forge: Forge, paused: tuple[object, ...], seconds: float, problem: str, outcome: str, *, is_known: bool
    ) -> Unavailable:
        _count(forge, outcome)
        self._paused[paused] = time.monotonic() + seconds, problem
        self._paused.move_to_end(paused)
        if len(self._paused) > _MAX_REMEMBERED:
            self._paused.popitem(last=False)
        return _unavailable(problem, seconds, is_known)

    def _check_paused(self, forge: Forge, digest: bytes, *, is_known: bool) -> None:
        for part in (("forge", forge.id), ("credential", forge.id, digest), ("share", forge.id, is_known)):
            until, problem = self._paused.get(part, (-math.inf, ""))
            if (seconds := until - time.monotonic()) > 0:
                _count(forge, "spared")
                raise _unavailable(problem, seconds, is_known)


def _count(forge: Forge, outcome: str) -> None:
    metrics.FORGE_LOOKUPS.labels(forge.name, outcome).inc()


def _unavailable(problem: str, seconds: float, is_known: bool) -> Unavailable:
    error = Unavailable(Reason.UNAVAILABLE, problem, retry_after=_retry_after(seconds))
    if not is_known:
        error.metadata["undecided"] = "true"
    return error


def _retry_after(seconds: float) -> str:
    return str(max(1, min(math.ceil(seconds), _MAX_RETRY_SECONDS)))


def _not_valid(lacks: str) -> Unauthenticated:
    if lacks:
        return Unauthenticated(Reason.BAD_CREDENTIALS, f"the token of the forge lacks {lacks}", lacks=lacks)
    return Unauthenticated(Reason.BAD_CREDENTIALS, "the token is not valid")
