"""Bodies of deliveries."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.locks.webhooks.formats import Format, render

_LOCK = {
    "repository_name": "studio/film",
    "lock_id": 7,
    "path": "Content/a.umap",
    "note": "",
    "space": "",
    "owner_name": "alice",
    "locked_at": "2026-11-26T12:00:00+02:00",
    "created_at": "2026-11-26T12:00:00.25+02:00",
    "caused_by": "alice",
    "reason": "",
    "forced": False,
    "previous_id": None,
    "previous_owner": "",
}
_STOLEN = {"lock_id": 8, "owner_name": "bob", "caused_by": "bob", "reason": "on leave", "forced": True}
_STOLEN |= {"previous_id": 7, "previous_owner": "alice"}
_OBJECT = {"repository_name": "studio/film", "oid": 64 * "a", "size": 5, "reason": "licence", "caused_by": "admin"}
_OBJECT["created_at"] = "2026-11-26T10:00:00Z"


def _text(form: Format, event_type: str, payload: dict[str, Any]) -> str:
    body = json.loads(render(form, event_type, 1, payload))
    text: str = body["text" if form is Format.SLACK else "content"]
    return text


def test_a_stolen_lock() -> None:
    """It has the reason, and the lock that was there before."""
    body = json.loads(render("json", "lock.stolen", 3, _LOCK | _STOLEN | {"note": "until Friday", "space": "art"}))
    assert body == {
        "type": "lock.stolen",
        "timestamp": "2026-11-26T10:00:00.250000Z",
        "data": {
            "repository": {"id": 3, "name": "studio/film"},
            "lock": {
                "id": "8",
                "path": "Content/a.umap",
                "locked_at": "2026-11-26T10:00:00Z",
                "owner": {"name": "bob"},
                "note": "until Friday",
                "space": "art",
            },
            "by": {"name": "bob"},
            "forced": True,
            "reason": "on leave",
            "previous": {"id": "7", "owner": {"name": "alice"}},
        },
    }


@pytest.mark.parametrize(
    ("event_type", "changes", "line"),
    [
        ("lock.created", {}, "`alice` locked `Content/a.umap` in `studio/film`"),
        ("lock.created", {"note": "x"}, "`alice` locked `Content/a.umap` in `studio/film`: `x`"),
        ("lock.released", {}, "`alice` unlocked `Content/a.umap` in `studio/film`"),
        (
            "lock.released",
            {"forced": True, "caused_by": "bob", "reason": "why"},
            "`bob` removed the lock of `alice` on `Content/a.umap` in `studio/film`: `why`",
        ),
        (
            "lock.stolen",
            _STOLEN,
            "`bob` took over the lock of `alice` on `Content/a.umap` in `studio/film`: `on leave`",
        ),
        (
            "object.removed",
            _OBJECT,
            "`admin` removed the object `aaaaaaaaaaaa` of 5 bytes from `studio/film`: `licence`",
        ),
    ],
)
@pytest.mark.parametrize("form", [Format.SLACK, Format.DISCORD])
def test_lines_of_chats(form: Format, event_type: str, changes: dict[str, Any], line: str) -> None:
    """A person reads who did what where, and why."""
    payload = _OBJECT if event_type == "object.removed" else _LOCK | changes
    assert _text(form, event_type, payload) == line


@given(st.text(min_size=1), st.text())
def test_no_text_of_strangers_leaves_its_span(path: str, note: str) -> None:
    """Whatever the path and the note are, both chats see a line of code spans, which is short."""
    payload = _LOCK | {"path": path, "note": note}
    for form in (Format.SLACK, Format.DISCORD):
        text = _text(form, "lock.created", payload)
        assert re.sub(r"`[^`\n]+`", "_", text) in ("_ locked _ in _", "_ locked _ in _: _")
        assert form is Format.DISCORD or not {"<", ">"} & set(text)
        assert text.isprintable()


def test_long_texts_are_cut() -> None:
    """Discord refuses more than 2,000 characters."""
    payload = _LOCK | _STOLEN | {"path": 4_000 * "a", "reason": 500 * "\n", "repository_name": 255 * "r"}
    assert len(_text(Format.DISCORD, "lock.stolen", payload)) < 2_000


def test_mentions_are_switched_off() -> None:
    """Discord is told that nobody is mentioned, and both that links have no previews."""
    discord = json.loads(render("discord", "lock.created", 1, _LOCK | {"path": "@everyone"}))
    assert (discord["allowed_mentions"], discord["flags"]) == ({"parse": []}, 4)
    slack = json.loads(render("slack", "lock.created", 1, _LOCK | {"path": "<!channel> & <https://e.example|x>"}))
    assert slack["text"] == "`alice` locked `&lt;!channel&gt; &amp; &lt;https://e.example|x&gt;` in `studio/film`"
    assert (slack["unfurl_links"], slack["unfurl_media"]) == (False, False)


@pytest.mark.parametrize(
    ("event_type", "line"),
    [
        ("quota.warned", "the quota of `studio/film` is nearly used: 412 GB of 500 GB used"),
        (
            "quota.exceeded",
            "the quota of `studio/film` has no room for an upload, or none at all: 412 GB of 500 GB used",
        ),
    ],
)
def test_a_quota(event_type: str, line: str) -> None:
    """It has how much is used, as numbers for programs, and in units for people."""
    use = {"used_bytes": 412_000_000_000, "quota_bytes": 500_000_000_000}
    payload = {"repository_name": "studio/film", **use, "created_at": "2026-11-26T10:00:00.5Z"}
    body = json.loads(render("json", event_type, 3, payload))
    assert body["data"] == {"repository": {"id": 3, "name": "studio/film"}, "quota": use}
    assert body["timestamp"] == "2026-11-26T10:00:00.500000Z"
    for form in (Format.SLACK, Format.DISCORD):
        assert _text(form, event_type, payload) == line
