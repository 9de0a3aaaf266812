"""Log lines: ours and those of libraries look alike, whichever way they take."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.waiting import STEP_SECONDS

ODD = "a\x85\u2028\x9b\x1b[2J\u00e9"
_PROGRAM = """
import logging, sys
from services.common.observability import logs
from services.common.observability import request_id

logs.configure("barge", level="INFO", log_format=logs.LogFormat(sys.argv[1]))
request_id.adopt("told-1")
ours, library = logs.get_logger("ours"), logging.getLogger("library")
ours.debug("not told")
ours.log(logging.DEBUG, "not told")
library.debug("not told")
ours.log(logging.INFO, "done", what=slice(1), name="\\udcff\u00e9", path="a\\x85\\u2028\\x9b\\x1b[2J\u00e9", count=2)
library.info("done: %s", 2, extra={"count": 2})
logging.getLogger("httpx").info("not told")
try:
    secret = "hidden"
    raise ValueError("broken")
except ValueError:
    ours.exception("failed")
    library.exception("failed")
"""


def _written(log_format: str) -> list[str]:
    command = [sys.executable, "-c", _PROGRAM, log_format]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="surrogateescape", check=True, timeout=STEP_SECONDS
    ).stdout.splitlines()


def test_a_line_of_ours_and_of_a_library() -> None:
    """Each is a JSON object with who, when, how bad, what and for which request; the level holds for both."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in _written("json")]
    assert [line["event"] for line in lines] == ["done", "done: 2", "failed", "failed"]
    for line in lines:
        assert (line["service"], line["request_id"]) == ("barge", "told-1")
        assert line["timestamp"].endswith("Z")
    ours, library, *failures = lines
    assert (ours["level"], ours["what"], ours["count"]) == ("info", "slice(None, 1, None)", 2)
    assert ours["name"] == "\udcff\u00e9"
    assert ours["path"] == ODD
    assert (library["level"], library["count"]) == ("info", 2)
    for failure in failures:
        assert failure["level"] == "error"
        assert (failure["exception"][0]["exc_type"], failure["exception"][0]["exc_value"]) == ("ValueError", "broken")
        assert "hidden" not in json.dumps(failure)


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_no_line_moves_a_cursor(log_format: str) -> None:
    """A stranger's text in a log line must neither move a terminal's cursor nor end the line early."""
    lines = _written(log_format)
    assert len([line for line in lines if "path" in line]) == 1
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("told", ["request_id=told-1", "service=barge", "ValueError: broken", "count=2"])
def test_a_terminal_gets_text(told: str) -> None:
    """The same, to be read by people."""
    text = "\n".join(_written("text"))
    assert text.count(told) == 2 if told.startswith(("Value", "count")) else text.count(told) == 4
    assert "not told" not in text
