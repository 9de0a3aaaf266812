"""The audit log has a row for each command that changes something, and no row has a secret."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.cli.main import root_command
from services.locks.audit.event_types import EVENT_TYPES
from tests.support.commands import finished
from tests.support.folders import temporary_folder
from tests.support.http import Client, content, oid_of
from tests.support.stack import TOWPATH, Stack, running_stack
from tests.support.waiting import until

# Commands that change nothing that has a row: they read, run services, or push and poll for others.
SILENT = frozenset(
    {
        "access",
        "audit export",
        "audit list",
        "backup",
        "check",
        "conformance",
        "explain",
        "forge list",
        "group list",
        "group member list",
        "hook check",
        "hook deliveries",
        "hook list",
        "hook post-receive",
        "hook pre-receive",
        "issuer list",
        "issuer rules",
        "key list",
        "lock history",
        "lock list",
        "lock watch",
        "login",
        "logout",
        "object list",
        "repo list",
        "restore",
        "ssh keys",
        "ssh serve",
        "storage list",
        "token list",
        "up",
        "usage",
        "user list",
    }
)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A stack that may put stores into a folder beside its data."""
    with temporary_folder() as folder, running_stack(environment={"TOWPATH_STORAGE_FOLDERS": str(folder)}) as stack:
        yield stack


def commands() -> set[str]:
    """Return the names of all commands."""

    def walk(group: object, prefix: str) -> Iterator[str]:
        for name, command in getattr(group, "commands", {}).items():
            if hasattr(command, "commands"):
                yield from walk(command, f"{prefix}{name} ")
            else:
                yield prefix + name

    return set(walk(root_command(), ""))


def events(stack: Stack) -> list[dict[str, object]]:
    """Return all events, the earliest first."""
    result = finished([*TOWPATH, "audit", "export", "--data", str(stack.data)])
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()][::-1]


def has_garbage(stack: Stack, repository: str, retained: Path) -> bool:
    """Return whether a repository has garbage that came before a list, which is made anew."""
    retained.touch()
    told = stack.towpath("gc", repository, "--retain", str(retained), "--grace", "0")
    return bool(told["garbage_count"])


async def test_every_command_that_changes_something_has_a_row(stack: Stack) -> None:
    """In the order of the commands, each with the types of its events."""
    repository, data = "audit/film", content("audited", 100)
    oid = oid_of(data)
    done: set[str] = set()
    before = len(events(stack))
    expected: list[tuple[str, str]] = []

    def run(name: str, *arguments: str, types: tuple[str, ...]) -> str:
        result: subprocess.CompletedProcess[str] = finished(
            [*TOWPATH, *name.split(), *arguments, "--data", str(stack.data)]
        )
        assert result.returncode == 0, (name, result.stderr)
        expected.extend((name, kind) for kind in types)
        done.add(name)
        return result.stdout

    run("user add", "ann", types=("user.created",))
    secret = json.loads(run("token add", "ann", "laptop", "--json", types=("token.created",)))["secret"]
    run("user update", "ann", "--rate", "600/min", types=("user.changed",))
    run("token update", "ann", "laptop", "--rate", "60/min", types=("token.changed",))
    run("group add", "artists", types=("group.created",))
    run("group update", "artists", "--rate", "600/min", types=("group.changed",))
    run("group member add", "artists", "ann", types=("group.member.created",))
    run("repo add", repository, types=("repository.created",))
    for command, name in (("repo", repository), ("user", "ann"), ("group", "artists")):
        run(f"{command} update", name, "--quota", "1GB", types=("limits.changed",))
    run("repo update", repository, "--stale-after", "14d", types=("repository.changed",))
    run("grant", "ann", repository, "--role", "write", types=("grant.created",))
    run("grant", "ann", repository, "--role", "write", "--ref", "refs/heads/*", types=("grant.changed",))
    run("grant", "--group", "artists", repository, "--role", "write", types=("group.grant.created",))
    forge = ("--kind", "gitea", "--api", "http://127.0.0.1:9/api/v1", "--repositories", "acme/*")
    run("forge add", "git", *forge, types=("forge.created",))
    run("forge remove", "git", types=("forge.deleted",))
    issuer = ("--issuer", "http://127.0.0.1:9/", "--client-id", "towpath", "--groups-claim", "groups")
    run("issuer add", "sso", *issuer, types=("issuer.created",))
    run("issuer map", "sso", "/film/artists", "artists", types=("issuer.group.created",))
    run("issuer unmap", "sso", "/film/artists", "artists", types=("issuer.group.deleted",))
    claim = ("--role", "write", "--claim", "repository=acme/film")
    run("issuer allow", "sso", repository, *claim, types=("issuer.grant.created",))
    run("issuer disallow", "sso", repository, types=("issuer.grant.deleted",))
    run("issuer remove", "sso", types=("issuer.deleted",))
    key = stack.data.parent / "ann.pub"
    key.write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 42 + "E ann\n")
    run("key add", "ann", str(key), "--name", "laptop", types=("key.created",))
    run("key remove", "ann", "laptop", types=("key.deleted",))
    url = "http://127.0.0.1:9/services/hidden-path?key=hidden-key"
    hook = json.loads(run("hook add", repository, url, "--allow-private", "--json", types=("hook.created",)))
    run("hook redeliver", str(hook["id"]), "--failed", types=("hook.redelivered",))
    run("hook remove", str(hook["id"]), types=("hook.deleted",))
    run("lock add", repository, "a.psd", "--user", "ann", types=("lock.created",))
    run("lock steal", repository, "a.psd", "--reason", "urgent", types=("lock.stolen",))
    run("lock remove", repository, "a.psd", types=("lock.released",))
    async with Client(f"{stack.origin}/{repository}", "ann", secret) as ann:
        assert (await ann.upload(data)).status_code == 200
    exported = stack.data.parent / "exported"
    run("repo export", repository, "--to", str(exported), types=("object.exported",))
    (exported / oid_of(b"imported")).write_bytes(b"imported")
    run("repo import", repository, "--from", str(exported), types=("object.imported",))
    run("repo add", "audit/fork", types=("repository.created",))
    run("object copy", repository, "audit/fork", "--all", types=("object.copied",))
    run("repo remove", "audit/fork", "--force", types=("repository.removed", "repository.changed"))
    run("repo undelete", "audit/fork", types=("repository.changed", "repository.restored"))
    run("repo archive", "audit/fork", types=("repository.changed",))
    run("repo unarchive", "audit/fork", types=("repository.changed",))
    run("repo remove", "audit/fork", "--force", types=("repository.removed", "repository.changed"))
    run("repo purge", "audit/fork", "--yes", types=("repository.purged", "repository.deleted"))
    run("object remove", repository, oid, "--reason", "wrong", types=("object.removed",))
    run("object undelete", repository, oid, types=("object.restored",))
    run("object remove", repository, oid, "--reason", "wrong", types=("object.removed",))
    run("object purge", repository, oid, "--yes", types=("object.purged",))
    run("object restore", repository, oid, types=("object.restored",))
    list_ = stack.data.parent / "list"
    nothing = "0" * 64 + "\n"
    list_.write_text(f"{nothing}end 1 {oid_of(nothing.encode())}\n")
    async with Client(f"{stack.origin}/{repository}", "ann", secret) as ann:
        assert (await ann.upload(data)).status_code == 200
    # What came within the last two seconds before the list counts as new.
    await until(lambda: has_garbage(stack, repository, list_))
    list_.touch()
    collected = ("--retain", str(list_), "--grace", "0", "--most", "100%", "--apply")
    run("gc", repository, *collected, types=("garbage.collected",))
    second = Path(stack.environment["TOWPATH_STORAGE_FOLDERS"]) / "second"
    second.mkdir()
    os.chown(second, stack.data.stat().st_uid, stack.data.stat().st_gid)
    run("storage add", "second", f"file://{second}", types=("store.created",))
    run("storage copy", "first", "second", "--no-wait", types=("store.copy.started",))
    run("storage stop-copy", "second", types=("store.copy.stopped",))
    run("storage set-primary", "first", types=("store.primary.set",))
    run("storage remove", "second", types=("store.deleted",))
    run("repo rename", repository, "audit/other", types=("repository.changed",))
    run("revoke", "ann", "audit/other", types=("grant.deleted",))
    run("revoke", "--group", "artists", "audit/other", types=("group.grant.deleted",))
    run("group member remove", "artists", "ann", types=("group.member.deleted",))
    run("group remove", "artists", types=("group.deleted",))
    run("token revoke", "ann", "laptop", types=("token.deleted",))
    run("repo remove", "audit/other", "--force", types=("repository.removed", "repository.changed"))
    run("user remove", "ann", types=("user.deleted",))
    exported_events = events(stack)
    new = exported_events[before:]
    types = [str(event["type"]).removeprefix("org.towpath.") for event in new]
    assert list(zip([name for name, _ in expected], types, strict=True)) == expected
    for event in new:
        assert event["specversion"] == "1.0"
        assert event["type"] in EVENT_TYPES
        assert event["source"] == "/towpath/admin"
        detail = event["data"]
        assert isinstance(detail, dict)
        assert (detail["actor"], bool(detail["request_id"])) == ("admin", True)
    everything = json.dumps(exported_events)
    assert everything.count("bootstrap") >= 2, "migrate makes the first administrator and its token"
    done.add("migrate")
    assert commands() - SILENT - done == set()
    administrator = (stack.data / "admin-token").read_text().strip()
    for hidden in (secret, hook["secret"], administrator, *stack.tokens.values(), "hidden"):
        assert hidden
        assert hidden not in everything
