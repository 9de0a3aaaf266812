"""The cases of `towpath conformance` against a Towpath: each passes, in both dialects (docs/conformance.md)."""

import re

import pytest

from services.conformance.catalog import CATALOG, select
from services.conformance.client import Credentials
from services.conformance.dialects import DIALECTS, GIT_LFS, Dialect
from services.conformance.outcome import Outcome
from services.conformance.runner import Target, run
from tests.protocol.administration import Administration
from tests.protocol.conftest import NewRepository
from tests.support.sources import ROOT, fail_with, text
from tests.support.stack import Stack
from tests.support.waiting import STEP_SECONDS

# The outcome and the message of a case, where it does not pass.
OTHERS = {
    "actions/an_href_has_the_scheme_of_the_base_address": (Outcome.SKIPPED, "the server is reached over http"),
}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
async def test_every_case_passes(
    stack: Stack, operator: Administration, new_repository: NewRepository, dialect: Dialect
) -> None:
    """The run tries each case, finds nothing, and leaves no lock; only a case for https is skipped."""
    name = f"contract/conformance-{dialect.name}"
    alice = new_repository(name)
    operator.grant("bob", name, "write")
    first, second = (Credentials(user, stack.tokens[user]) for user in ("alice", "bob"))
    report = await run(Target(alice.base_url, dialect, first, second), CATALOG, seconds=STEP_SECONDS)
    ends = [(result, OTHERS.get(result.case.id, (Outcome.PASSED, ""))) for result in report.results]
    fail_with(str(result.record()) for result, end in ends if (result.outcome, result.message) != end)
    assert [result.case for result in report.results] == list(CATALOG)
    assert (report.left_locks, report.is_stopped) == ([], False)
    assert alice.locks().json() == {"locks": []}


@pytest.mark.parametrize(("first", "second", "ref"), [("bob", "alice", "refs/heads/bob"), ("alice", "bob", None)])
async def test_users_who_may_write_some_refs_lead_to_no_findings(
    stack: Stack, first: str, second: str, ref: str | None
) -> None:
    """A right that a user lacks is no defect of the server: what needs it is skipped."""
    users = [Credentials(user, stack.tokens[user]) for user in (first, second)]
    target = Target(stack.base_url, GIT_LFS, users[0], users[1], ref)
    report = await run(target, CATALOG, seconds=STEP_SECONDS)
    assert [result.record() for result in report.results if result.outcome is Outcome.FAILED] == []
    assert report.is_clean
    skipped = {result.message for result in report.results if result.outcome is Outcome.SKIPPED}
    assert ("the requests name a ref" if ref else "the second user may not lock") in skipped


def test_the_catalog_is_of_use() -> None:
    """Ids are unique, titles are sentences, and patterns select."""
    assert len({case.id for case in CATALOG}) == len(CATALOG) >= 100
    assert all(re.fullmatch(r"[A-Z].{10,}[^.]", case.title) for case in CATALOG)
    assert {case.id.partition("/")[0] for case in select(["lock_*"])} == {
        "lock_create",
        "lock_list",
        "lock_verify",
        "lock_delete",
    }


def test_every_case_is_of_a_row_of_the_protocol() -> None:
    """A finding names the section and the row of docs/protocol.md, where a reader finds what the server has to do."""
    sections = re.split(r"^#+ ", text(ROOT / "docs" / "protocol.md"), flags=re.MULTILINE)
    rows = {each.partition("\n")[0]: re.findall(r"^\| (.*?) \|", each, flags=re.MULTILINE) for each in sections}
    fail_with(
        f"{case.id}: {case.section}: {case.row}" for case in CATALOG if case.row not in rows.get(case.section, [])
    )
