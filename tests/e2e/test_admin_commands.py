"""The administration commands, as an operator runs them against a running stack."""

import os
import re
import subprocess
from typing import Any

import pytest

from tests.support.commands import finished
from tests.support.http import Client, content, oid_of
from tests.support.stack import TOWPATH, Stack
from tests.support.waiting import STEP_SECONDS, until, until_answer

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def text(stack: Stack, *arguments: str) -> list[str]:
    """Run a command without --json and return the lines that it prints."""
    result = run(*arguments, "--data", str(stack.data))
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def failure(stack: Stack, *arguments: str) -> str:
    """Run a command that is refused, and return the message: one line, in lower case."""
    result = run(*arguments, "--data", str(stack.data))
    assert (result.returncode, result.stdout) == (1, "")
    [line] = result.stderr.splitlines()
    assert line.startswith("towpath: ")
    return line.removeprefix("towpath: ")


def run(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    return finished([*TOWPATH, *arguments], env={**os.environ, **(environment or {})})


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    """Check that the ids and times of a record are of their form, and return the rest of it."""
    rest = dict(record)
    for name in [name for name in rest if name.endswith(("_at", "_until"))]:
        assert MOMENT.fullmatch(rest.pop(name))
    assert rest.pop("id", 1)
    return rest


def test_users(stack: Stack) -> None:
    """`user add|list|remove`."""
    added = stack.towpath("user", "add", "ursula")
    assert timeless(added) == {"name": "ursula", "administrator": False}
    assert stack.towpath("user", "add", "upton", "--administrator")["administrator"] is True
    assert "ursula" in failure(stack, "user", "add", "ursula")
    assert added in stack.towpath("user", "list")
    title, *rows = text(stack, "user", "list")
    assert title.split() == ["NAME", "ADMINISTRATOR", "CREATED", "AT", "ORIGIN", "RATE"]
    assert [row.split()[:2] for row in rows if row.startswith("u")] == [["upton", "yes"], ["ursula", "no"]]
    assert stack.towpath("user", "remove", "ursula") == added
    stack.towpath("user", "remove", "upton")
    assert "ursula" in failure(stack, "user", "remove", "ursula")
    assert "admin" in failure(stack, "user", "remove", "admin")


def tokens_of(stack: Stack, user: str) -> dict[str, dict[str, Any]]:
    """Return a user's tokens by name."""
    return {token["name"]: token for token in stack.towpath("token", "list", user)}


async def test_tokens(stack: Stack) -> None:
    """`token add|list|revoke`: the secret is shown once, works, and works no more when it is revoked."""
    stack.towpath("user", "add", "tom")
    stack.towpath("grant", "tom", "demo/assets", "--role", "read")
    added = stack.towpath("token", "add", "tom", "--name", "laptop", "--expires", "2099-12-31")
    secret = added.pop("secret")
    assert added["expires_at"] == "2099-12-31T00:00:00Z"
    assert timeless(added) == {"user": "tom", "name": "laptop"}
    assert "expires_at" not in stack.towpath("token", "add", "tom")
    lines = text(stack, "token", "add", "tom", "other", "--expires", "90d")
    assert lines[-1].startswith("secret")
    assert [token["name"] for token in stack.towpath("token", "list", "tom")] == ["default", "laptop", "other"]
    assert secret not in "".join(text(stack, "token", "list", "tom"))
    async with Client(stack.base_url, "tom", secret) as client:
        assert (await client.locks()).status_code == 200
        await until(lambda: "last_used_at" in tokens_of(stack, "tom")["laptop"], "the use is shown")
        title, *rows = text(stack, "token", "list", "tom")
        assert title.split() == ["NAME", "CREATED", "AT", "EXPIRES", "AT", "LAST", "USED", "AT", "ISSUER", "RATE"]
        assert max(map(len, rows)) <= 80
        assert [len(MOMENT.findall(row)) for row in rows] == [1, 3, 2]
        assert stack.towpath("token", "revoke", "tom", "laptop") == added

        async def said() -> object:
            answer = await client.locks()
            return answer.status_code, answer.json().get("message")

        # A facade knows of it within a second.
        await until_answer((401, "the token laptop was revoked"), said)
    assert "laptop" in failure(stack, "token", "revoke", "tom", "laptop")
    stack.towpath("user", "remove", "tom")


def test_repositories(stack: Stack) -> None:
    """`repo add|list|rename|update|remove`."""
    private = stack.towpath("repo", "add", "studio/film/one")
    assert timeless(private) == {"name": "studio/film/one", "public": False, "forced_unlock": "writers"}
    public = stack.towpath("repo", "add", "studio/film/two", "--public", "--forced-unlock", "admins")
    assert timeless(public) == {"name": "studio/film/two", "public": True, "forced_unlock": "admins"}
    assert [entry for entry in stack.towpath("repo", "list") if entry["name"].startswith("studio/")] == [
        private,
        public,
    ]
    row = next(line for line in text(stack, "repo", "list") if line.startswith("studio/film/two"))
    assert row.split()[:3] == ["studio/film/two", "yes", "admins"]
    assert stack.towpath("repo", "rename", "studio/film/one", "studio/three") == {**private, "name": "studio/three"}
    changed = stack.towpath("repo", "update", "studio/three", "--public", "--forced-unlock", "admins")
    assert changed == {**private, "name": "studio/three", "public": True, "forced_unlock": "admins"}
    assert stack.towpath("repo", "update", "studio/three", "--private")["public"] is False
    rules = stack.towpath("repo", "update", "studio/three", "--stale-after", "14d", "--keep-history", "1y")
    assert (rules["stale_after"], rules["keep_history"]) == ("14d", "1y")
    private_again = {**changed, "public": False}
    assert stack.towpath("repo", "update", "studio/three", "--stale-after", "never", "--keep-history", "never") == (
        private_again
    )
    assert "'soon'" in run("repo", "update", "studio/three", "--stale-after", "soon").stderr
    strict = stack.towpath("repo", "add", "studio/film/strict", "--stale-after", "12h", "--keep-history", "90d")
    assert (strict["stale_after"], strict["keep_history"]) == ("12h", "90d")
    stack.towpath("repo", "remove", "studio/film/strict")
    rules = ["refs/heads/release/*=per-ref", "refs/heads/dev/*=dev"]
    spaces = [part for rule in rules for part in ("--lock-space", rule)]
    assert stack.towpath("repo", "update", "studio/three", *spaces)["lock_spaces"] == rules
    assert "--no-lock-spaces" in run("repo", "update", "studio/three", *spaces, "--no-lock-spaces").stderr
    assert stack.towpath("repo", "update", "studio/three", "--no-lock-spaces") == private_again
    assert "lock_spaces: expected" in failure(stack, "repo", "update", "studio/three", "--lock-space", "main")
    assert "studio/three" in failure(stack, "repo", "rename", "studio/film/two", "studio/three")
    assert failure(stack, "repo", "add", "a/../b")
    removed = stack.towpath("repo", "remove", "studio/film/two")
    assert removed == {**public, "removed_at": removed["removed_at"], "bin_until": removed["bin_until"]}
    assert stack.towpath("repo", "list", "--removed")[0] == removed
    assert failure(stack, "repo", "undelete", "studio/film/two", "--name", "studio/three")
    assert stack.towpath("repo", "undelete", "studio/film/two", "--name", "studio/two") == {
        **public,
        "name": "studio/two",
    }
    assert "archived_at" in stack.towpath("repo", "archive", "studio/two")
    assert stack.towpath("repo", "unarchive", "studio/two") == {**public, "name": "studio/two"}
    first = stack.towpath("repo", "remove", "studio/two")
    again = stack.towpath("repo", "add", "studio/two")
    stack.towpath("repo", "remove", "studio/two")
    assert stack.towpath("repo", "purge", "studio/two", "--id", str(first["id"]), "--yes")["id"] == first["id"]
    assert stack.towpath("repo", "purge", "studio/two", "--yes")["id"] == again["id"]
    assert "studio/two" in failure(stack, "repo", "purge", "studio/two", "--yes")
    said, _, name, *_ = text(stack, "repo", "remove", "studio/three")
    assert said == "Removed the repository studio/three."
    assert name.split() == ["name", "studio/three"]


def test_a_terminal_is_asked(stack: Stack) -> None:
    """A removal cannot be taken back, so a user at a terminal is asked first; a script is not asked."""
    stack.towpath("user", "add", "rita")
    command = [*TOWPATH, "user", "remove", "rita", "--data", str(stack.data)]

    def answer(text: str, *options: str) -> tuple[int, str]:
        ours, theirs = os.openpty()
        with os.fdopen(ours, "wb", buffering=0) as terminal:
            process = subprocess.Popen(
                [*command, *options], stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, text=True
            )
            os.close(theirs)
            terminal.write(text.encode())
            output, _ = process.communicate(timeout=STEP_SECONDS)
        return process.returncode, output

    assert answer("n\n") == (1, "")
    assert "rita" in {user["name"] for user in stack.towpath("user", "list")}
    status, output = answer("y\n")
    assert (status, output.splitlines()[0]) == (0, "Removed the user rita.")
    stack.towpath("user", "add", "rita")
    assert answer("", "--yes")[0] == 0
    stack.towpath("user", "add", "rita")
    assert text(stack, "user", "remove", "rita")[0] == "Removed the user rita."


def test_access(stack: Stack) -> None:
    """`grant`, `revoke`, `access`, and `check` with the grant that decides."""
    stack.towpath("user", "add", "gina")
    stack.towpath("repo", "add", "access/tests", "--public")
    grant = stack.towpath(
        "grant", "gina", "access/tests", "--role", "write", "--ref", "refs/heads/rel/*", "--ref", "refs/heads/gina"
    )
    assert timeless(grant) == {
        "user": "gina",
        "repository": "access/tests",
        "role": "write",
        "ref_patterns": ["refs/heads/rel/*", "refs/heads/gina"],
    }
    assert stack.towpath("access", "access/tests") == [grant]
    first, title, row = text(stack, "access", "access/tests")
    assert first == "Anybody may read this repository."
    assert title.split()[:2] == ["USER", "ROLE"]
    assert "refs/heads/rel/*, refs/heads/gina" in row
    asked = ("check", "gina", "access/tests", "--operation")
    yes = stack.towpath(*asked, "upload", "--ref", "refs/heads/rel/1")
    assert (yes["allowed"], yes["grant"], yes["operation"], yes["ref"]) == (True, grant, "upload", "refs/heads/rel/1")
    no = stack.towpath(*asked, "lock", "--ref", "refs/heads/main", check=False)
    assert no["allowed"] is False
    assert no["explanation"]
    anybody = stack.towpath("check", "", "access/tests", "--operation", "download")
    assert anybody["allowed"] is True
    assert "grant" not in anybody
    assert "user" not in anybody
    lines = text(stack, *asked, "upload", "--ref", "refs/heads/gina")
    assert lines[0].startswith("yes: ")
    assert "role write" in lines[1]
    refusal = run(*asked, "download", "--data", str(stack.data))
    assert refusal.returncode == 0
    refusal = run(*asked, "lock", "--ref", "refs/heads/main", "--data", str(stack.data))
    assert (refusal.returncode, refusal.stderr) == (1, "")
    assert refusal.stdout.startswith("no: ")
    again = ("grant", "gina", "access/tests", "--role", "write", "--ref")
    replaced = stack.towpath(*again, "refs/heads/other")
    assert replaced.pop("replaced") == grant
    assert "replaced" not in stack.towpath(*again, "refs/heads/other")
    said = text(stack, *again, "refs/heads/rel/*", "--ref", "refs/heads/gina")[-1]
    assert said == (
        "This replaces the grant of write for refs/heads/other; to keep both, give all refs in one command."
    )
    [grant] = stack.towpath("access", "access/tests")
    assert failure(stack, "grant", "gina", "access/tests", "--role", "read", "--ref", "refs/heads/x")
    refused = failure(stack, "grant", "gina", "access/tests", "--role", "write", "--ref", "main")
    assert "refs/heads/main" in refused
    assert "nobody" in failure(stack, "grant", "nobody", "access/tests", "--role", "read")
    assert stack.towpath("revoke", "gina", "access/tests") == [grant]
    assert failure(stack, "revoke", "gina", "access/tests")
    assert stack.towpath("access", "access/tests") == []
    stack.towpath("repo", "remove", "access/tests")
    stack.towpath("user", "remove", "gina")


def test_groups(stack: Stack) -> None:
    """`group add|list|remove`, `group member add|list|remove`, and the grants of groups."""
    for user in ("gwen", "gus"):
        stack.towpath("user", "add", user)
    stack.towpath("repo", "add", "group/tests")
    assert timeless(stack.towpath("group", "add", "artists")) == {"name": "artists", "members": 0}
    group = stack.towpath("group", "member", "add", "artists", "gwen", "gus")
    assert timeless(group) == {"name": "artists", "members": 2}
    assert stack.towpath("group", "list") == [group]
    assert "nobody" in failure(stack, "group", "member", "add", "artists", "nobody")
    assert [user["name"] for user in stack.towpath("group", "member", "list", "artists")] == ["gus", "gwen"]
    grant = stack.towpath("grant", "artists", "group/tests", "--role", "write", "--group")
    assert timeless(grant) == {
        "group": "artists",
        "repository": "group/tests",
        "role": "write",
        "ref_patterns": [],
    }
    assert stack.towpath("access", "group/tests") == [grant]
    titles, row = text(stack, "access", "group/tests")
    assert titles.split()[:3] == ["USER", "GROUP", "ROLE"]
    assert row.split()[:2] == ["artists", "write"]
    line, decided = text(stack, "check", "gwen", "group/tests", "--operation", "lock")
    assert line == "yes: the role write by the group artists includes writing, on every ref"
    assert "gwen" in decided
    assert "artists" in decided
    stack.towpath("group", "member", "remove", "artists", "gwen")
    assert [user["name"] for user in stack.towpath("group", "member", "list", "artists")] == ["gus"]
    assert failure(stack, "grant", "nobody", "group/tests", "--role", "read", "--group") == "there is no group nobody"
    assert stack.towpath("revoke", "artists", "group/tests", "--group") == [grant]
    assert stack.towpath("group", "remove", "artists")["members"] == 1
    assert text(stack, "group", "list") == ["(none)"]


async def test_locks(stack: Stack) -> None:
    """`lock list|history|remove`: who holds a path, who held it, who forced it off (trap-37)."""
    stack.towpath("repo", "add", "locks/tests")
    stack.towpath("grant", "alice", "locks/tests", "--role", "write")
    assert stack.towpath("lock", "list", "locks/tests") == []
    async with Client(f"{stack.origin}/locks/tests", "alice", stack.tokens["alice"]) as alice:
        for path in ("one\n\x1b[31m.bin", "two.bin"):
            assert (await alice.lock(path)).status_code == 201
    one, two = stack.towpath("lock", "list", "locks/tests")
    assert timeless(one) == {"path": "one\n\x1b[31m.bin", "owner": "alice"}
    assert stack.towpath("lock", "list", "locks/tests", "--path", "two.bin") == [two]
    title, row, _ = text(stack, "lock", "list", "locks/tests")
    assert title.split() == ["ID", "OWNER", "LOCKED", "AT", "PATH", "NOTE", "SPACE"]
    assert row.endswith(r"one\n\x1b[31m.bin")
    assert stack.towpath("lock", "remove", "locks/tests", "--id", one["id"]) == one
    assert "lock" in failure(stack, "lock", "remove", "locks/tests", "--id", one["id"])
    [released] = stack.towpath("lock", "history", "locks/tests")
    assert MOMENT.fullmatch(released.pop("released_at"))
    assert released == {**one, "released_by": "admin", "forced": True}
    assert text(stack, "lock", "history", "locks/tests", "--path", "two.bin") == ["(none)"]
    assert failure(stack, "repo", "remove", "locks/tests")
    stack.towpath("repo", "remove", "locks/tests", "--force")


def test_notes_thefts_and_the_history(stack: Stack) -> None:
    """`lock add --note`, `steal`, `remove --reason` and the filters of `history`."""
    stack.towpath("repo", "add", "locks/stolen")
    [lock] = stack.towpath("lock", "add", "locks/stolen", "a", "--user", "alice", "--note", "until Friday")["locks"]
    assert lock["note"] == "until Friday"
    _, row = text(stack, "lock", "list", "locks/stolen")
    assert row.endswith("until Friday")
    steal = ["lock", "steal", "locks/stolen"]
    stolen = stack.towpath(*steal, "a", "--user", "bob", "--reason", "alice is on leave")
    previous = stolen.pop("previous")
    assert timeless(stolen) == {"path": "a", "owner": "bob"}
    assert MOMENT.fullmatch(previous.pop("released_at"))
    release = {"released_by": "admin", "forced": True, "stolen": True, "reason": "alice is on leave"}
    assert previous == {**lock, **release}
    assert "the path is locked by bob" in failure(stack, *steal, "--id", lock["id"], "--user", "bob", "--reason", "x")
    assert "no lock stands" in failure(stack, *steal, "b", "--reason", "x")
    assert "reason" in failure(stack, *steal, "a", "--reason", " ")
    mine = stack.towpath(*steal, "--id", stolen["id"], "--reason", "back", "--note", "for later")
    assert (mine["owner"], mine["note"]) == ("admin", "for later")
    stack.towpath("lock", "remove", "locks/stolen", "a", "--reason", "done")
    history = ["lock", "history", "locks/stolen"]
    assert [lock["reason"] for lock in stack.towpath(*history)] == ["done", "back", "alice is on leave"]
    assert [lock["owner"] for lock in stack.towpath(*history, "--user", "bob", "--since", "1h")] == ["bob"]
    assert stack.towpath(*history, "--until", "1h") == stack.towpath(*history, "--since", "2999-01-01") == []
    assert "REASON" in text(stack, *history)[0].split()
    assert "give the path" in run(*steal, "--reason", "x").stderr
    stack.towpath("repo", "remove", "locks/stolen")


def test_locks_of_branches(stack: Stack) -> None:
    """A path is locked once in each space, and the commands name the space by a ref."""
    stack.towpath("repo", "add", "locks/spaces", "--lock-space", "refs/heads/release/*=per-ref")
    release = ["--ref", "refs/heads/release/1"]
    [one] = stack.towpath("lock", "add", "locks/spaces", "a", "--user", "alice")["locks"]
    [two] = stack.towpath("lock", "add", "locks/spaces", "a", "--user", "bob", *release)["locks"]
    assert "space" not in one
    assert two["space"] == "refs/heads/release/1"
    assert stack.towpath("lock", "list", "locks/spaces", "--path", "a") == [one, two]
    assert "give --id" in failure(stack, "lock", "steal", "locks/spaces", "a", "--reason", "x")
    assert stack.towpath("lock", "remove", "locks/spaces", "a", *release)["locks"] == [two]
    assert [lock["space"] for lock in stack.towpath("lock", "history", "locks/spaces", "--path", "a")] == [two["space"]]
    stack.towpath("lock", "remove", "locks/spaces", "a")
    stack.towpath("repo", "remove", "locks/spaces")


def test_locks_of_many_paths(stack: Stack) -> None:
    """`lock add|remove` with paths: each that can be, or with --atomic all or none, and what fails is named."""
    stack.towpath("repo", "add", "locks/many")
    added = stack.towpath("lock", "add", "locks/many", "b", "a", "--user", "alice")
    assert [(timeless(lock)["path"], lock["owner"]) for lock in added["locks"]] == [("b", "alice"), ("a", "alice")]
    assert added["failures"] == []
    assert stack.towpath("lock", "add", "locks/many", "b", "a", "--user", "alice", "--atomic") == added

    def refusal(*arguments: str) -> str:
        result = run("lock", *arguments, "--data", str(stack.data))
        assert result.returncode == 1
        return result.stderr

    for more in (("--atomic",), ()):
        refused = refusal("add", "locks/many", "a", "c", "--user", "bob", *more)
        assert "a: the path is locked by alice" in refused
        assert refused.startswith(f"towpath: locked {0 if more else 1} paths, and failed at 1:\n")
    assert [lock["path"] for lock in stack.towpath("lock", "list", "locks/many")] == ["a", "b", "c"]
    assert "a: the lock belongs to alice" in refusal("remove", "locks/many", "a", "--mine")
    assert "none: no lock stands" in refusal("remove", "locks/many", "a", "none", "--atomic", "--yes")
    removed = stack.towpath("lock", "remove", "locks/many", "c", "a", "b")
    assert [lock["path"] for lock in removed["locks"]] == ["c", "a", "b"]
    assert "give the paths" in run("lock", "remove", "locks/many", "--data", str(stack.data)).stderr
    stack.towpath("repo", "remove", "locks/many")


def test_quotas_of_users_and_groups(stack: Stack) -> None:
    """`user update`, `group update` and `usage --user`: a user has the quota of a group, or one alone."""
    stack.towpath("user", "add", "quota")
    stack.towpath("group", "add", "limited")
    stack.towpath("group", "member", "add", "limited", "quota")
    assert stack.towpath("group", "update", "limited", "--quota", "2GB") == {
        "group": "limited",
        "quota_bytes": 2 * 10**9,
    }
    used = {"user": "quota", "object_count": 0, "object_bytes": 0}
    assert stack.towpath("usage", "--user", "quota") == used | {"quota_bytes": 2 * 10**9}
    assert stack.towpath("user", "update", "quota", "--quota", "1kB") == {"user": "quota", "quota_bytes": 1000}
    assert stack.towpath("usage", "--user", "quota") == used | {"quota_bytes": 1000}
    assert stack.towpath("user", "update", "quota", "--quota", "none") == {"user": "quota", "quota_bytes": 0}
    assert stack.towpath("usage", "--user", "quota") == used
    assert stack.towpath("user", "update", "quota", "--quota", "default") == {"user": "quota"}
    wrong = run("usage", "demo/assets", "--user", "quota", "--data", str(stack.data))
    assert (wrong.returncode, "give either" in wrong.stderr) == (2, True)
    stack.towpath("group", "remove", "limited")
    stack.towpath("user", "remove", "quota")


async def test_objects_and_usage(stack: Stack) -> None:
    """`object list|copy|remove|undelete|purge|restore` and `usage`."""
    stack.towpath("repo", "add", "objects/tests")
    stack.towpath("grant", "alice", "objects/tests", "--role", "write")
    data = content("administered", 12_345)
    oid = oid_of(data)
    async with Client(f"{stack.origin}/objects/tests", "alice", stack.tokens["alice"]) as alice:
        assert (await alice.upload(data)).status_code == 200
        [held] = stack.towpath("object", "list", "objects/tests")
        assert timeless(held) == {"oid": oid, "size": 12_345}
        usage = stack.towpath("usage", "objects/tests")
        if stack.bucket is None:
            assert usage["available_bytes"] > 0
        else:
            # Nothing bounds what a bucket takes.
            assert usage["available_bytes"] is None
        assert usage["repositories"] == [
            {
                "repository": "objects/tests",
                "object_count": 1,
                "object_bytes": 12_345,
                "removed_count": 0,
                "bin_bytes": 0,
                "bytes_in_today": 12_345,
                "bytes_out_today": 0,
                "locks": 0,
                "growth_bytes": 12_345,
            }
        ]
        assert [line.split()[0] for line in text(stack, "usage", "objects/tests")][:2] == ["repository", "object"]
        listed = stack.towpath("usage", "objects/tests", "--largest", "1")["largest"]
        assert [timeless(stored) for stored in listed] == [{"oid": oid, "size": 12_345}]
        [today] = stack.towpath("usage", "objects/tests", "--days", "1")["by_day"]
        assert (today["object_count"], today["object_bytes"]) == (1, 12_345)
        assert run("usage", "--days", "1", "--data", str(stack.data)).returncode == 2
        order = ("--order", "largest")
        listed = stack.towpath("object", "list", "objects/tests", *order, "--state", "held")
        assert [stored["oid"] for stored in listed] == [oid]
        assert stack.towpath("object", "list", "objects/tests", *order, "--state", "bin") == []
        limits = ("--quota", "20kB", "--bandwidth", "1.5TB/day")
        limited = stack.towpath("repo", "update", "objects/tests", *limits)
        assert (limited["quota_bytes"], limited["bandwidth_bytes"]) == (20_000, 1_500_000_000_000)
        usage = stack.towpath("usage", "objects/tests")["repositories"][0]
        assert (usage["quota_bytes"], usage["reserved_bytes"]) == (20_000, 0)
        assert "quota_bytes" not in stack.towpath("repo", "update", "objects/tests", "--quota", "default")
        assert stack.towpath("repo", "update", "objects/tests", "--bandwidth", "none")["bandwidth_bytes"] == 0
        assert "quota_bytes" not in stack.towpath("usage", "objects/tests")["repositories"][0]
        wrong = run("repo", "update", "objects/tests", "--quota", "much", "--data", str(stack.data))
        assert (wrong.returncode, "500GB" in wrong.stderr) == (2, True)
        assert {"objects/tests", "demo/assets"} <= {line.split()[0] for line in text(stack, "usage")}
        removed = stack.towpath("object", "remove", "objects/tests", oid, "--reason", "not ours")
        assert timeless(removed) == {"oid": oid, "size": 12_345, "removal_reason": "not ours", "removed_by": "admin"}
        assert removed["bin_until"] > removed["removed_at"]
        assert text(stack, "object", "list", "objects/tests")[1].endswith("not ours")
        newest = stack.towpath("object", "list", "objects/tests", "--order", "newest", "--state", "bin")
        assert [stored["oid"] for stored in newest] == [oid]
        assert stack.towpath("object", "list", "objects/tests", "--state", "damaged") == []
        assert stack.towpath("usage", "objects/tests")["repositories"][0]["bin_bytes"] == 12_345
        undeleted = stack.towpath("object", "undelete", "objects/tests", oid)
        assert timeless(undeleted) == {"repository": "objects/tests", "oid": oid, "size": 12_345}
        assert (await alice.download(oid, 12_345)).content == data
        stack.towpath("repo", "add", "objects/fork")
        copied = stack.towpath("object", "copy", "objects/tests", "objects/fork", oid)
        assert copied == {"repository": "objects/fork", "copied_count": 1, "missing": [], "removed": []}
        assert stack.towpath("object", "copy", "objects/tests", "objects/fork", "--all")["copied_count"] == 0
        unknown = oid_of(b"unknown")
        assert unknown in failure(stack, "object", "copy", "objects/tests", "objects/fork", unknown)
        assert "--all" in failure(stack, "object", "copy", "objects/tests", "objects/fork")
        stack.towpath("object", "remove", "objects/tests", oid, "--reason", "not ours")
        stack.towpath("repo", "remove", "objects/fork", "--force")
        stack.towpath("repo", "purge", "objects/fork", "--yes")
        purged = stack.towpath("object", "purge", "objects/tests", oid, "--yes")
        assert (purged["needed_by"], "bin_until" in purged) == ([], False)
        assert "not in the bin" in failure(stack, "object", "undelete", "objects/tests", oid)
        assert stack.towpath("object", "restore", "objects/tests", oid) == {"repository": "objects/tests", "oid": oid}
        assert (await alice.upload(data)).status_code == 200
    assert oid in failure(stack, "object", "restore", "objects/tests", oid)
    assert failure(stack, "object", "remove", "objects/tests", "0" * 63, "--reason", "x")
    assert "objects/none" in failure(stack, "usage", "objects/none")
    stack.towpath("repo", "remove", "objects/tests", "--force")


@pytest.mark.parametrize("user", ["admin", "alice"])
def test_remote_stack(stack: Stack, user: str) -> None:
    """--server takes the token from TOWPATH_TOKEN; only an administrator's opens the door."""
    token = (stack.data / "admin-token").read_text().strip() if user == "admin" else stack.tokens[user]
    address = f"unix:{stack.data.resolve()}/run/locks.sock"
    result = run("user", "list", "--server", address, environment={"TOWPATH_TOKEN": token})
    assert result.returncode == (0 if user == "admin" else 1), result.stderr
    wrong = run("user", "list", "--server", address, environment={"TOWPATH_TOKEN": "wrong"})
    assert (wrong.returncode, wrong.stderr) == (1, "towpath: TOWPATH_TOKEN: the token is not valid\n")
