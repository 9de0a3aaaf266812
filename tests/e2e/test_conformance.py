"""`towpath conformance` as its users run it: against a Towpath, and against lfs-test-server (docs/conformance.md)."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import pytest

from tests.support.commands import finished
from tests.support.git import Workspace
from tests.support.http import basic
from tests.support.lfs_test_server import ADMIN, LfsTestServer, lfs_test_server
from tests.support.spoiling_proxy import Asked, Forward, Given, spoiling_proxy
from tests.support.stack import TOWPATH, Stack
from tests.support.waiting import LONG_SECONDS, STEP_SECONDS, until

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
REPOSITORY = "demo/conformance"
# Two requests at once decide these, and at lfs-test-server it is a matter of luck who is first.
BY_LUCK = {
    "lock_create/of_several_creators_exactly_one_gets_the_lock",
    "upload/two_uploads_of_one_object_succeed",
}


@pytest.fixture(scope="package")
def url(stack: Stack) -> str:
    """The base address of a repository that is there for the test alone, which alice and bob may write."""
    stack.towpath("repo", "add", REPOSITORY)
    for user in ("alice", "bob"):
        stack.towpath("grant", user, REPOSITORY, "--role", "write")
    return f"{stack.origin}/{REPOSITORY}"


def passwords(first: str, second: str = "") -> dict[str, str]:
    """Return the environment of the command, with the passwords of its users, and without git's helpers."""
    return {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "TOWPATH_CONFORMANCE_PASSWORD": first,
        "TOWPATH_CONFORMANCE_SECOND_PASSWORD": second,
    }


def conformance(*arguments: str | Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return finished([*TOWPATH, "conformance", *arguments, "--timeout", "120"], env=env, seconds=LONG_SECONDS)


def test_a_towpath_has_no_findings(stack: Stack, url: str, tmp_path: Path) -> None:
    """The whole run with two users: the exit status is 0, and table and JUnit tell of every case, and of no secret."""
    junit = tmp_path / "results.xml"
    env = passwords(stack.tokens["alice"], stack.tokens["bob"])
    done = conformance(url, "--user", "alice", "--second-user", "bob", "--junit", junit, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"RESULT +LEVEL +CASE +MESSAGE", lines[0])
    counts = re.search(r"^(\d+) passed, 0 failed, 1 skipped, 0 blocked\.$", done.stdout, flags=re.MULTILINE)
    assert counts is not None, done.stdout
    assert len([line for line in lines if line.startswith("passed ")]) == int(counts[1]) >= 100
    assert re.search(r"^\d+ objects with \d+ bytes stay in the repository\.$", done.stdout, flags=re.MULTILINE)
    root = ET.parse(junit).getroot()  # noqa: S314 - it is our own
    assert root.get("tests") == str(int(counts[1]) + 1)
    assert (root.get("failures"), root.get("errors"), root.get("skipped")) == ("0", "0", "1")
    assert len(root.findall("testsuite/testcase")) == int(counts[1]) + 1
    for secret in stack.tokens.values():
        assert secret not in done.stdout + done.stderr + junit.read_text()


def test_json_of_the_neutral_dialect_with_one_user(stack: Stack, url: str) -> None:
    """Without a second user, what needs one is skipped; JSON is all that is printed, and the bytes left are true."""
    env = passwords(stack.tokens["alice"])
    before = usage(stack)
    done = conformance(url, "--user=alice", "--dialect=neutral", "--format=json", "--only=upload/*", env=env)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["url"], report["dialect"], report["failed"], report["blocked"]) == (url, "neutral", 0, 0)
    assert all(case["case"].startswith("upload/") and case["result"] == "passed" for case in report["cases"])
    # The empty object may have been there.
    assert report["left"]["object_bytes"] == usage(stack) - before > 0
    assert len(report["left"]["oids"]) == report["left"]["object_count"]
    done = conformance(url, "--user=alice", "--format=json", "--only=lock_delete/the_lock_of_another*", env=env)
    (case,) = json.loads(done.stdout)["cases"]
    assert (done.returncode, case["result"], case["message"]) == (0, "skipped", "needs a second user")


def usage(stack: Stack) -> int:
    """Return the bytes that the repository holds."""
    (record,) = [entry for entry in stack.towpath("usage")["repositories"] if entry["repository"] == REPOSITORY]
    return int(record["object_bytes"])


def test_the_password_may_be_gits(url: str, alice: Workspace) -> None:
    """A credential helper of git answers for the user of the option; nothing is asked."""
    env = {**os.environ, **alice.environment}
    done = conformance(url, "--user", "alice", "--only", "authentication/*", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    done = conformance(url, "--user", "nobody", "--only", "authentication/*", env=env)
    assert done.returncode == 2
    assert "no password of nobody" in done.stderr


def test_the_list_needs_no_server() -> None:
    """The catalog, to choose from."""
    done = finished([*TOWPATH, "conformance", "--list", "--only", "verify/*", "--format", "json"])
    assert done.returncode == 0, done.stderr
    cases = json.loads(done.stdout)
    assert {case["case"].partition("/")[0] for case in cases} == {"verify"}
    assert all(case.keys() == {"case", "level", "section", "row", "title"} for case in cases)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected the base address of a repository"),
        (["ftp://localhost/a"], "expected the base address of a repository"),
        (["http://alice:secret@localhost/a"], "expected no user or password in it"),
        (["http://localhost/a", "--second-user=bob"], "expected --user with it"),
        (["http://localhost/a", "--user=bob", "--second-user=bob"], "expected another user than --user"),
        (["http://localhost/a", "--timeout=0"], "expected more than 0 and at most 600"),
        (["http://localhost/a", "--only=nothing/*"], "expected a pattern that matches a case"),
        (["http://127.0.0.1:1/a", "--user=bob"], "no answer"),
    ],
)
def test_what_cannot_be_tested_is_a_usage_error(arguments: list[str], said: str) -> None:
    """The exit status 2 tells it from findings, for a script."""
    done = finished([*TOWPATH, "conformance", *arguments], env=passwords("x", "y"))
    assert done.returncode == 2, done.stdout
    assert said in " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stderr).split())
    assert "secret" not in done.stdout + done.stderr


def test_wrong_credentials_and_unknown_repositories_are_usage_errors(stack: Stack, url: str) -> None:
    """A mistyped address or password must not look like a hundred findings."""
    for address, user, password, said in (
        (url, "alice", "wrong", "does not accept the credentials"),
        (url, None, "", "asks for credentials"),
        (f"{stack.origin}/no/such", "alice", stack.tokens["alice"], "no repository is there"),
        (stack.base_url, "bob", stack.tokens["bob"], "may not upload"),
    ):
        done = conformance(address, *(["--user", user] if user else []), env=passwords(password))
        assert done.returncode == 2, done.stdout
        assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_a_run_that_is_stopped_leaves_no_lock(stack: Stack, url: str, number: signal.Signals) -> None:
    """The signal comes while five locks stand; they are removed, the results so far are told, and the status is 1."""
    stopped = [False]

    async def held(asked: Asked, forward: Forward) -> Given:
        given = await forward(asked)
        if "limit" in asked.query and not stopped[0]:
            # The locks stand now, and their list is not answered before the signal.
            await until(lambda: stopped[0], "the signal")
        return given

    headers = {"Authorization": basic("alice", stack.tokens["alice"]), "Accept": "application/vnd.git-lfs+json"}
    async with spoiling_proxy(stack.origin) as proxy, httpx.AsyncClient(headers=headers) as http:
        proxy.spoil = held

        async def standing() -> list[Any]:
            return list((await http.get(f"{url}/locks")).json()["locks"])

        process = await asyncio.create_subprocess_exec(
            *TOWPATH,
            *("conformance", f"{proxy.origin}/{REPOSITORY}", "--user=alice", "--only=lock_list/*"),
            env=passwords(stack.tokens["alice"]),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:

            async def are_five() -> bool:
                return len(await standing()) == 5

            await until(are_five, "five locks stand")
            process.send_signal(number)
            # The request that is not answered is given up.
            async with asyncio.timeout(STEP_SECONDS):
                output, errors = (text.decode() for text in await process.communicate())
            stopped[0] = True
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert await standing() == []
    assert process.returncode == 1, errors
    assert "stopped before the end" in output
    assert "lock_list/a_path_selects_its_lock" in output
    assert "Traceback" not in errors


@pytest.fixture(scope="module")
async def other(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LfsTestServer]:
    """An lfs-test-server with a second user, bob."""
    with lfs_test_server(tmp_path_factory.mktemp("lfs-test-server")) as server:
        await server.add_user("bob")
        yield server


@pytest.mark.drill
async def test_the_findings_of_lfs_test_server_are_those_of_the_page(other: LfsTestServer) -> None:
    """docs/conformance.md lists in words what lfs-test-server does otherwise; each finding is named there."""
    env = passwords(other.passwords[ADMIN], other.passwords["bob"])
    done = conformance(other.url(), "--user", ADMIN, "--second-user", "bob", "--format", "json", env=env)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    found = {case["case"] for case in report["cases"] if case["result"] in ("failed", "blocked")}
    _, _, section = PAGE.read_text().partition("\n## Findings about lfs-test-server")
    listed = set(re.findall(r"`(\w+/\w+)`", section.partition("\n## ")[0]))
    assert sorted(found - BY_LUCK) == sorted(listed - BY_LUCK)
    assert listed >= BY_LUCK
    assert report["left"]["locks"] == []
    assert await other.locks() == []
    assert all(other.passwords[user] not in done.stdout for user in (ADMIN, "bob"))
