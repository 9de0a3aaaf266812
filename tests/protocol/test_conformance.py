"""The cases of `towpath conformance` against a Towpath: each passes, in both dialects (docs/conformance.md)."""

import asyncio
import re
from pathlib import Path

import pytest

from services.conformance.case import Case
from services.conformance.catalog import CATALOG, select
from services.conformance.client import Credentials
from services.conformance.dialects import DIALECTS, GIT_LFS, Dialect
from services.conformance.outcome import Outcome
from services.conformance.report import Report, Result
from services.conformance.runner import Target, run
from tests.protocol.administration import Administration
from tests.protocol.conftest import NewRepository
from tests.support.stack import Stack
from tests.support.waiting import STEP_SECONDS

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
SKIPPED = {"actions/an_href_has_the_scheme_of_the_base_address": "the server is reached over http"}


@pytest.fixture(scope="module")
def results(stack: Stack, operator: Administration, new_repository: NewRepository) -> dict[tuple[str, str], Result]:
    """The result of each case in each dialect, in a repository that alice and bob may write."""
    found = {}
    for dialect in DIALECTS:
        report = _report(stack, operator, new_repository, dialect)
        assert report.left_locks == []
        assert not report.is_stopped
        found.update({(dialect.name, result.case.id): result for result in report.results})
    return found


def _report(stack: Stack, operator: Administration, new_repository: NewRepository, dialect: Dialect) -> Report:
    name = f"contract/conformance-{dialect.name}"
    alice = new_repository(name)
    operator.grant("bob", name, "write")
    first, second = (Credentials(user, stack.tokens[user]) for user in ("alice", "bob"))
    report = asyncio.run(run(Target(alice.base_url, dialect, first, second), CATALOG, seconds=STEP_SECONDS))
    assert alice.locks().json() == {"locks": []}
    return report


@pytest.mark.parametrize("case", CATALOG, ids=lambda case: case.id)
@pytest.mark.parametrize("name", [dialect.name for dialect in DIALECTS])
def test_every_case_passes(results: dict[tuple[str, str], Result], name: str, case: Case) -> None:
    """Towpath has no findings of its own test; the only case that says nothing here is one for https."""
    result = results[name, case.id]
    assert result.outcome is (Outcome.SKIPPED if case.id in SKIPPED else Outcome.PASSED), result.record()
    assert result.message == SKIPPED.get(case.id, "")


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


@pytest.mark.parametrize("case", CATALOG, ids=lambda case: case.id)
def test_every_case_is_of_a_row_of_the_protocol(case: Case) -> None:
    """A finding names the section and the row of docs/protocol.md, where a reader finds what the server has to do."""
    _, _, section = re.sub(r"^#+ ", "# ", PAGE, flags=re.MULTILINE).partition(f"\n# {case.section}\n")
    rows = re.findall(r"^\| (.*?) \|", section.partition("\n# ")[0], flags=re.MULTILINE)
    assert case.row in rows
