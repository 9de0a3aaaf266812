"""A schemathesis run against the served description: no 5xx, and no answer off the schema."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from services.conformance.blobs import new_blob
from tests.protocol.client import Action, Client
from tests.support.commands import finished
from tests.support.sources import ROOT
from tests.support.stack import Stack, running_stack
from tests.support.waiting import LONG_SECONDS

SECONDS = int(os.environ.get("TOWPATH_FUZZ_SECONDS", "60"))
"""The duration of each test; `make fuzz` sets 10 minutes."""

HOOKS = ROOT / "tests" / "support" / "schemathesis_hooks.py"

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
]


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Stack]:
    """A stack with small objects, because a large one that no disk can take is rightly a 507."""
    settings = {"TOWPATH_FAILED_LOGINS": "100000/minute", "TOWPATH_OBJECT_BYTES": "1000000"}
    with running_stack(environment=settings) as stack:
        yield stack


def binding(dictionary: str, probability: float) -> str:
    """Return a binding that takes most values from a dictionary."""
    return f'{{ dictionary = "{dictionary}", probability = {probability} }}'


def configuration(alice: Client, actions: dict[str, Action], lock_ids: list[str], oids: list[str]) -> str:
    """Return a schemathesis.toml with the credentials of each operation, and with values that mean something."""
    dictionaries = {
        "repositories": ["demo/assets", "demo/assets.git/info/lfs", "demo/assets/info/lfs", "demo/assets.git"],
        "oids": oids,
        "lock_ids": lock_ids,
        "refs": ["refs/heads/bob", "refs/heads/main", "HEAD"],
        "operations": ["download", "upload"],
        "paths": ["fuzz/a", "fuzz/b.bin"],
    }
    bindings = {
        "path.repository": ("repositories", 0.9),
        "path.lock_id": ("lock_ids", 0.5),
        "path.oid": ("oids", 0.9),
        "query.refspec": ("refs", 0.3),
        "query.id": ("lock_ids", 0.3),
        "query.path": ("paths", 0.3),
        "body.operation": ("operations", 0.8),
        "body.objects.[*].oid": ("oids", 0.4),
        "body.ref.name": ("refs", 0.5),
        "body.path": ("paths", 0.5),
    }
    lines = ["[headers]", f"Authorization = {json.dumps(alice.authorization)}"]
    for name, values in dictionaries.items():
        lines += [f"[dictionaries.{name}]", f"values = {json.dumps(values)}"]
    lines += ["[parameters]", *(f'"{place}" = {binding(*bound)}' for place, bound in bindings.items())]
    for operation_id, action in actions.items():
        oid = action["href"].rsplit("/", 1)[1]
        lines += [
            "[[operations]]",
            f'include-operation-id = "{operation_id}"',
            f"headers = {{ X-Towpath-Token = {json.dumps(action['header']['X-Towpath-Token'])} }}",
            f'parameters = {{ "path.repository" = "demo/assets", "path.oid" = {json.dumps(oid)} }}',
        ]
    return "\n".join([*lines, ""])


def run(folder: Path, stack: Stack, config: str, *options: str) -> None:
    """Run schemathesis, and fail with what it found."""
    (folder / "schemathesis.toml").write_text(f"hooks = {json.dumps(str(HOOKS))}\n{config}")
    # The program of the same name stands beside the interpreter, whichever environment this is.
    program = Path(sys.executable).with_name("schemathesis")
    command = [str(program), f"--config-file={folder / 'schemathesis.toml'}", "--no-color", "run"]
    command += [f"{stack.origin}/openapi.json", f"--checks={','.join(CHECKS)}", f"--max-time={SECONDS}"]
    # An answer that has no end is none that schemathesis can read; tests/protocol/test_lock_events.py has its refusals.
    command += ["--exclude-operation-id=watch_lock_events"]
    command += ["--continue-on-failure", "--warnings=off", "--generation-database=none", "--suppress-health-check=all"]
    result = finished([*command, *options], cwd=folder, seconds=SECONDS + LONG_SECONDS)
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-5_000:]


@pytest.mark.timeout(SECONDS + 2 * LONG_SECONDS)
@pytest.mark.drill
def test_no_request_is_answered_off_the_schema(tmp_path: Path, fuzzed: Stack, http: httpx.Client) -> None:
    """A client must get no 5xx and no answer off the schema, whatever it sends."""
    alice = Client(http, fuzzed.base_url, f"Bearer {fuzzed.tokens['alice']}")
    held, missing = alice.upload(new_blob()), new_blob()
    offered = alice.entry("upload", missing)["actions"]
    download = alice.action("download", held)
    actions = {"download": download, "head": download, "upload": offered["upload"], "verify": offered["verify"]}
    actions["append"] = offered["upload"]
    ids = [alice.lock(f"fuzz/{number}").json()["lock"]["id"] for number in range(20)]
    run(tmp_path, fuzzed, configuration(alice, actions, ids, [held.oid, missing.oid]))
    lines = [json.loads(line) for line in fuzzed.log().splitlines() if line.startswith("{")]
    assert [line for line in lines if line["event"] in ("request failed", "call failed")] == []


def test_the_description_is_a_valid_one(stack: Stack, http: httpx.Client) -> None:
    """Clients are generated from the description, so it must be valid and every operation must say what it is."""
    described = http.get(f"{stack.origin}/openapi.json").json()
    assert described["openapi"].startswith("3.")
    for methods in described["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert operation["operationId"]
