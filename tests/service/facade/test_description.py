"""The served description is true: schemathesis finds no server error, and no answer off the schema."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.service.facade.conftest import Place
from tests.support.commands import finished
from tests.support.sources import ROOT
from tests.support.waiting import LONG_SECONDS

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)
# A batch can ask for more room than the disk has, and is rightly answered 507.
CONFIGURATION = """
hooks = "{hooks}"

[parameters]
repository = "{repository}"

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 507]
"""


@pytest.mark.drill
async def test_schemathesis_finds_nothing(place: Place, tmp_path: Path) -> None:
    """A short run, as somebody who may write, and on a repository that exists."""
    (tmp_path / "schemathesis.toml").write_text(
        CONFIGURATION.format(repository=place.name, hooks=ROOT / "tests" / "support" / "schemathesis_hooks.py")
    )
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{place.facade.origin}/openapi.json"),
        *("--header", f"Authorization: Bearer {place.inner.tokens['alice']}"),
        *("--max-examples", "5", "--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing"),
    ]
    result = await asyncio.to_thread(finished, command, cwd=tmp_path, seconds=LONG_SECONDS)
    assert result.returncode == 0, result.stdout[-5_000:] + result.stderr[-2_000:]
