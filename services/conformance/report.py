"""The report of a run: a result for each case, and what the run left on the server."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree as ET

from services.conformance.case import Case
from services.conformance.outcome import Outcome

_NO_XML = re.compile("[^\\t\\n\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


@dataclass(frozen=True)
class Result:
    """The end of one case."""

    case: Case
    outcome: Outcome
    seconds: float
    message: str = ""
    """The finding, or the reason why the case was skipped or blocked."""
    exchange: str = ""
    """The request and the answer of the finding, in short and without credentials."""

    def record(self) -> dict[str, Any]:
        """Return the fields of the result, without those that are empty."""
        fields = {
            "case": self.case.id,
            "level": self.case.level.value,
            "result": self.outcome.value,
            "title": self.case.title,
            "section": self.case.section,
            "row": self.case.row,
            "seconds": round(self.seconds, 3),
            "message": self.message,
            "exchange": self.exchange,
        }
        return {name: value for name, value in fields.items() if value != ""}


@dataclass
class Report:
    """The results of a run."""

    url: str
    dialect: str
    results: list[Result] = field(default_factory=list)
    is_stopped: bool = False
    """If set, the run was stopped before its last case."""
    left_objects: dict[str, int] = field(default_factory=dict)
    """The sizes of the objects that stay on the server, by oid."""
    left_locks: list[str] = field(default_factory=list)
    """The paths of the locks that could not be removed."""

    @property
    def counts(self) -> dict[str, int]:
        """The number of results of each outcome."""
        counted = Counter(result.outcome for result in self.results)
        return {outcome.value: counted[outcome] for outcome in Outcome}

    @property
    def is_clean(self) -> bool:
        """Return whether the run came to its end, no case failed or was blocked, and no lock is left."""
        bad = {Outcome.FAILED, Outcome.BLOCKED}
        return not (self.is_stopped or self.left_locks or any(result.outcome in bad for result in self.results))

    def record(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "url": self.url,
            "dialect": self.dialect,
            "stopped": self.is_stopped,
            **self.counts,
            "left": {
                "object_count": len(self.left_objects),
                "object_bytes": sum(self.left_objects.values()),
                "oids": sorted(self.left_objects),
                "locks": self.left_locks,
            },
            "cases": [result.record() for result in self.results],
        }

    def junit(self) -> bytes:
        """Return the report as an XML file of JUnit: a test suite for each part of the interface."""
        root = ET.Element("testsuites", name="towpath conformance")
        suites: dict[str, ET.Element] = {}
        for result in self.results:
            part, _, name = result.case.id.partition("/")
            if part not in suites:
                suites[part] = ET.SubElement(root, "testsuite", name=part)
            attributes = {"classname": part, "name": name, "time": f"{result.seconds:.3f}"}
            test = ET.SubElement(suites[part], "testcase", attributes)
            if result.outcome is Outcome.SKIPPED:
                ET.SubElement(test, "skipped", message=_xml(result.message))
            elif result.outcome is not Outcome.PASSED:
                tag = "failure" if result.outcome is Outcome.FAILED else "error"
                found = ET.SubElement(test, tag, message=_xml(result.message), type=result.case.level.value)
                found.text = _xml(f"{result.case.title}\n{result.case.section}: {result.case.row}\n{result.exchange}")
        for element in (root, *suites.values()):
            tests = list(element.iter("testcase"))
            element.set("tests", str(len(tests)))
            for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
                element.set(attribute, str(sum(1 for test in tests if test.find(tag) is not None)))
            element.set("time", f"{sum(float(test.get('time', '0')) for test in tests):.3f}")
        ET.indent(root)
        return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _xml(text: str) -> str:
    """Return a text in which the characters that XML does not have are replaced."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
