"""Planted defects: `towpath conformance` finds each, by exactly the cases that name it (docs/conformance.md)."""

import asyncio
from dataclasses import replace

import pytest

from services.conformance.catalog import CATALOG, select
from services.conformance.client import Credentials
from services.conformance.dialects import GIT_LFS
from services.conformance.outcome import Outcome
from services.conformance.report import Report
from services.conformance.runner import Target, run
from tests.protocol.administration import Administration
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository
from tests.support.defects import DEFECTS, Defect
from tests.support.spoiling_proxy import Asked, Forward, Given, Spoil, spoiling_proxy
from tests.support.stack import Stack
from tests.support.waiting import STEP_SECONDS


def _part(defect: Defect) -> str:
    return min(defect.found_by).partition("/")[0]


# One of locks and one of objects.
WHOLE = {DEFECTS[0], DEFECTS[-1]}
_FIRST = {_part(defect): defect for defect in reversed(DEFECTS)}


@pytest.fixture(scope="package")
def repository(operator: Administration, new_repository: NewRepository) -> Client:
    """Alice at a repository that bob may write, too."""
    alice = new_repository("contract/defects")
    operator.grant("bob", "contract/defects", "write")
    return alice


async def run_through(
    stack: Stack, repository: Client, spoil: Spoil | None, *only: str, seconds: float = STEP_SECONDS
) -> Report:
    """Run cases, by default all, through a proxy that spoils answers, or passes all on where `spoil` is None."""
    first, second = (Credentials(user, stack.tokens[user]) for user in ("alice", "bob"))
    async with spoiling_proxy(stack.origin) as proxy:
        if spoil is not None:
            proxy.spoil = spoil
        url = repository.base_url.replace(stack.origin, proxy.origin)
        return await run(Target(url, GIT_LFS, first, second), select(only), seconds=seconds)


def ids(report: Report, *outcomes: Outcome) -> set[str]:
    """Return the ids of the cases that ended so."""
    return {result.case.id for result in report.results if result.outcome in outcomes}


def test_there_are_defects_enough() -> None:
    """Each has a name of its own, and is found by one case at least."""
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) >= 20
    assert all(defect.found_by and defect.found_by <= {case.id for case in CATALOG} for defect in DEFECTS)


async def test_the_proxy_itself_is_no_defect(stack: Stack, repository: Client) -> None:
    """Without a defect there are no findings, so that those with one are of the defect."""
    report = await run_through(stack, repository, None)
    assert [result.record() for result in report.results if result.outcome is Outcome.FAILED] == []
    assert report.is_clean
    assert len(report.results) == len(CATALOG)


@pytest.mark.parametrize(
    "defect",
    [
        pytest.param(defect, id=defect.name, marks=[] if defect in _FIRST.values() else pytest.mark.drill)
        for defect in DEFECTS
    ],
)
async def test_a_defect_is_found_by_its_cases(
    stack: Stack, repository: Client, defect: Defect, pytestconfig: pytest.Config
) -> None:
    """With one defect its cases fail, and no others; the run leaves no lock, whatever the server says.

    Run are the parts of the interface that these cases are of; all parts, with `--whole-catalog`.
    """
    whole = pytestconfig.getoption("--whole-catalog") or defect in WHOLE
    parts = () if whole else {f"{found.partition('/')[0]}/*" for found in defect.found_by}
    report = await run_through(stack, repository, defect.plant(), *parts)
    assert sorted(ids(report, Outcome.FAILED)) == sorted(defect.found_by), [
        result.record() for result in report.results if result.outcome is Outcome.FAILED
    ]
    assert bool(ids(report, Outcome.BLOCKED)) is defect.blocks
    assert not report.is_clean
    assert not report.is_stopped
    assert report.left_locks == []
    assert repository.locks().json() == {"locks": []}


async def test_a_server_that_does_not_answer_fails_one_case_and_not_the_run(stack: Stack, repository: Client) -> None:
    """Each case has its time: what hangs is a finding, and the next case is run."""

    async def hanging(asked: Asked, forward: Forward) -> Given:
        if asked.json.get("operation") == "verify":
            await asyncio.Event().wait()
        return await forward(asked)

    report = await run_through(stack, repository, hanging, "batch_request/*_operation*", seconds=5)
    assert ids(report, Outcome.FAILED) == {"batch_request/another_operation_is_refused"}
    assert ids(report, Outcome.PASSED) == {"batch_request/both_operations_are_answered"}
    (failed,) = (result for result in report.results if result.outcome is Outcome.FAILED)
    assert failed.seconds < STEP_SECONDS


async def test_an_answer_without_end_is_not_read(stack: Stack, repository: Client) -> None:
    """The size of what a server sends is bounded, because the run holds it in memory."""

    async def endless(asked: Asked, forward: Forward) -> Given:
        given = await forward(asked)
        return replace(given, body=given.body + b" " * 9 * 2**20) if asked.is_list() else given

    report = await run_through(stack, repository, endless, "lock_list/a_path_without_a_lock*")
    (result,) = report.results
    assert (result.outcome, result.message) == (
        Outcome.FAILED,
        "expected an answer of at most 8388608 bytes; got a larger one",
    )


async def test_a_lock_whose_answer_was_lost_is_removed(stack: Stack, repository: Client) -> None:
    """The client never learned the id: the run finds the lock by its path."""

    async def losing(asked: Asked, forward: Forward) -> Given:
        given = await forward(asked)
        if asked.is_lock():
            raise ConnectionResetError
        return given

    report = await run_through(stack, repository, losing, "lock_create/a_free_path_is_locked")
    assert ids(report, Outcome.FAILED) == {"lock_create/a_free_path_is_locked"}
    assert report.left_locks == []
    assert repository.locks().json() == {"locks": []}


async def test_locks_that_cannot_be_removed_are_named(stack: Stack, repository: Client) -> None:
    """Somebody has to remove them by hand, so they are findings, and the locks of others stay what they are."""
    others = repository.lock("of-others.bin").json()["lock"]

    async def refusing(asked: Asked, forward: Forward) -> Given:
        return Given(500, {}, b"{}") if asked.is_unlock() else await forward(asked)

    report = await run_through(stack, repository, refusing, "lock_create/a_free_path_is_locked")
    assert ids(report, Outcome.PASSED) == {"lock_create/a_free_path_is_locked"}
    assert not report.is_clean
    locks = repository.locks().json()["locks"]
    assert report.left_locks == [lock["path"] for lock in locks if lock != others] != []
    for lock in locks:
        assert repository.unlock(lock["id"]).status_code == 200


async def test_a_server_without_locks_has_no_findings_about_them(stack: Stack, repository: Client) -> None:
    """Locks are optional: 404 for their verification is the way to say so."""

    async def without_locks(asked: Asked, forward: Forward) -> Given:
        return Given(404) if "/locks" in asked.path else await forward(asked)

    report = await run_through(stack, repository, without_locks, "lock_*", "dialects/*", "errors/*", "authentication/*")
    assert [result.record() for result in report.results if result.outcome is Outcome.FAILED] == []
    assert report.is_clean
    skipped = {result.message for result in report.results if result.case.id.startswith("lock_")}
    assert skipped == {"the server has no locks"}


async def test_a_limited_rate_is_waited_for_and_is_no_finding(stack: Stack, repository: Client) -> None:
    """A server may limit the rate (protocol: 429): a short Retry-After is waited for, any other skips the case."""
    answered: list[str] = []

    async def limiting(asked: Asked, forward: Forward) -> Given:
        if asked.json.get("transfers") and len(answered) < 1:
            answered.append(asked.path)
            return Given(429, {"retry-after": "1"}, b'{"message": "slowly"}')
        if asked.json.get("operation") == "verify":
            return Given(429, {"retry-after": "3600"}, b'{"message": "slowly"}')
        return await forward(asked)

    report = await run_through(
        stack, repository, limiting, "batch_request/the_chosen*", "batch_request/another_operation*"
    )
    assert answered
    assert ids(report, Outcome.PASSED) == {"batch_request/the_chosen_transfer_was_offered"}
    assert ids(report, Outcome.SKIPPED) == {"batch_request/another_operation_is_refused"}
    assert report.is_clean
