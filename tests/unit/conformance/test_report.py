"""The report of a run as JSON and as JUnit XML."""

from xml.etree import ElementTree as ET

import pytest

from services.conformance.case import Case
from services.conformance.outcome import Level, Outcome
from services.conformance.report import Report, Result
from services.conformance.site import Site


async def _nothing(_: Site) -> None: ...


def result(name: str, outcome: Outcome, message: str = "", exchange: str = "") -> Result:
    """Return the result of a case."""
    case = Case(name, "A title", "List locks", "200", Level.SHOULD, _nothing)
    return Result(case, outcome, 0.25, message, exchange)


RESULTS = [
    result("a/one", Outcome.PASSED),
    result("a/two", Outcome.FAILED, 'expected <1>; got "\x00\ud800"', "GET /x -> 200 \x1b[2J"),
    result("b/one", Outcome.SKIPPED, "needs a second user"),
    result("b/two", Outcome.BLOCKED, "the upload of an object: expected 200; got 500"),
]


def test_junit_has_a_suite_for_each_part() -> None:
    """A failed case is a failure, a blocked one an error; characters that XML does not have are replaced."""
    root = ET.fromstring(Report("http://h/a", "neutral", list(RESULTS)).junit())  # noqa: S314 - it is our own
    assert root.attrib == {
        "name": "towpath conformance",
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
        "time": "1.000",
    }
    assert [suite.attrib["tests"] for suite in root] == ["2", "2"]
    failure = root.find("./testsuite[@name='a']/testcase[@name='two']/failure")
    assert failure is not None
    assert failure.attrib == {"message": 'expected <1>; got "\ufffd\ufffd"', "type": "should"}
    assert failure.text == "A title\nList locks: 200\nGET /x -> 200 \ufffd[2J"
    skipped = root.find("./testsuite[@name='b']/testcase[@name='one']/skipped")
    assert skipped is not None
    assert skipped.get("message") == "needs a second user"


@pytest.mark.parametrize(
    ("report", "is_clean"),
    [
        (Report("", "", [RESULTS[0], RESULTS[2]]), True),
        (Report("", "", RESULTS[:2]), False),
        (Report("", "", RESULTS[3:]), False),
        (Report("", "", RESULTS[:1], is_stopped=True), False),
        (Report("", "", RESULTS[:1], left_locks=["x"]), False),
    ],
)
def test_a_clean_report_has_no_findings_and_leaves_no_lock(report: Report, is_clean: bool) -> None:
    """The exit status of the command says the same."""
    assert report.is_clean is is_clean


def test_json_has_counts_results_and_what_is_left() -> None:
    """Empty fields of a result are absent."""
    record = Report("http://h/a", "neutral", list(RESULTS), left_objects={"b": 2, "a": 1}).record()
    assert {name: record[name] for name in ("passed", "failed", "skipped", "blocked", "stopped")} == {
        "passed": 1,
        "failed": 1,
        "skipped": 1,
        "blocked": 1,
        "stopped": False,
    }
    assert record["left"] == {"object_count": 2, "object_bytes": 3, "oids": ["a", "b"], "locks": []}
    assert record["cases"][0] == {
        "case": "a/one",
        "level": "should",
        "result": "passed",
        "title": "A title",
        "section": "List locks",
        "row": "200",
        "seconds": 0.25,
    }
