"""Changes in the audit log as pages show them."""

import json

from towpath.access.v1 import admin_service_pb2 as pb

from services.facade.pages.site.changes import Change, changes_of


def event(before: object = None, after: object = None) -> pb.AuditEvent:
    """Return an event with these records."""
    texts = ["" if record is None else json.dumps(record) for record in (before, after)]
    return pb.AuditEvent(before=texts[0], after=texts[1])


def test_of_a_change_only_the_fields_that_differ_are_shown() -> None:
    """A field that came or went has no text on one side."""
    before = {"role": "read", "user": "alice", "note": "gone"}
    after = {"role": "write", "user": "alice", "refs": ["refs/heads/main"]}
    assert changes_of(event(before, after)) == [
        Change("role", "read", "write"),
        Change("refs", None, '["refs/heads/main"]'),
        Change("note", "gone", None),
    ]


def test_a_record_that_was_added_or_removed_is_shown_whole() -> None:
    """An event without records has no fields."""
    assert changes_of(event(after={"name": "alice"})) == [Change("name", None, "alice")]
    assert changes_of(event(before={"name": "alice"})) == [Change("name", "alice", None)]
    assert changes_of(event()) == []


def test_null_and_false_differ_from_a_field_that_is_not_there() -> None:
    """The audit log tells them apart too."""
    assert changes_of(event({"a": None}, {"a": False})) == [Change("a", "null", "false")]
    assert changes_of(event({}, {"a": None})) == [Change("a", None, "null")]


def test_a_large_record_is_cut() -> None:
    """A page shows a hundred fields of a thousand characters at most."""
    [long] = changes_of(event(after={"text": "x" * 5_000}))
    assert long.after == "x" * 1_000 + "…"
    assert len(changes_of(event(after={str(number): 1 for number in range(500)}))) == 100


def test_what_is_no_object_is_shown_as_it_is() -> None:
    """A version to come may write another form."""
    assert changes_of(pb.AuditEvent(before="not JSON", after="[1]")) == [Change("record", "not JSON", "[1]")]
