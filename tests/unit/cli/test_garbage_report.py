"""The output of a collection of garbage."""

import json
from typing import Any

import pytest
from towpath.storage.v1 import storage_service_pb2 as pb

from services.cli.garbage.report import Report

SUMMARY = pb.GarbageSummary(garbage_count=3, garbage_bytes=5_000, held_count=4)


def told(capsys: pytest.CaptureFixture[str], parts: int, *, is_listed: bool, applied: bool, as_json: bool) -> str:
    """Return what is printed of a collection whose list comes in so many parts."""
    report = Report("studio/film", is_listed=is_listed, as_json=as_json)
    report.summary(SUMMARY)
    for part in range(parts):
        report.garbage(pb.GarbageList(objects=[pb.Object(oid=f"{part}{number}", size=7) for number in range(2)]))
    report.end(pb.CollectionResult(removed_count=3) if applied else None)
    return capsys.readouterr().out


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize(("parts", "is_listed"), [(0, False), (0, True), (1, True), (3, True)])
def test_json_is_one_object(capsys: pytest.CaptureFixture[str], parts: int, is_listed: bool, applied: bool) -> None:
    """However long the list is, and whether anything is in it."""
    record: dict[str, Any] = json.loads(told(capsys, parts, is_listed=is_listed, applied=applied, as_json=True))
    assert (record["repository"], record["garbage_count"], record["garbage_bytes"]) == ("studio/film", 3, 5_000)
    assert ("objects" in record) is is_listed
    assert [stored["oid"] for stored in record.get("objects", [])] == [f"{p}{n}" for p in range(parts) for n in (0, 1)]
    assert record.get("removed_count") == (3 if applied else None)


def test_json_of_a_failure_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A script must not take half an object for the answer."""
    Report("studio/film", is_listed=False, as_json=True).summary(SUMMARY)
    assert capsys.readouterr().out == ""


def test_people_get_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes have units, and a dry run says that it is one."""
    text = told(capsys, 2, is_listed=True, applied=False, as_json=False)
    assert "5.0 kB" in text
    assert text.count("7 bytes") == 4
    assert text.endswith("Nothing was removed; --apply removes the garbage.\n")
    assert "removed count" in told(capsys, 0, is_listed=True, applied=True, as_json=False)
