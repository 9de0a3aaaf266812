"""The lines that git shows to the user who pushes."""

from google.protobuf.timestamp_pb2 import Timestamp
from towpath.locks.v1 import push_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2 import Lock

from services.cli.push_hooks.push_client import Verdict
from services.cli.push_hooks.report import refusal_lines, release_lines

AT = Timestamp(seconds=1_795_687_320)


def _verdict(*locks: Lock, count: int | None = None, known: bool = True) -> Verdict:
    verdict = Verdict()
    number = len(locks) if count is None else count
    verdict.add(pb.CheckPushResponse(blocking=locks, blocking_count=number, pusher_is_known=known))
    return verdict


def test_a_refusal_names_the_locks() -> None:
    """By path, with the owner, the time, and the note of those that have one."""
    lines = refusal_lines(
        _verdict(
            Lock(id="2", path="b.umap", owner_name="carol", locked_at=AT, note="lighting pass"),
            Lock(id="1", path="a.umap", owner_name="alice", locked_at=AT),
        ),
        "bob",
    )
    assert list(lines)[1:] == [
        "  a.umap: locked by alice since 2026-11-26 10:02 UTC",
        "  b.umap: locked by carol since 2026-11-26 10:02 UTC: lighting pass",
    ]


def test_a_terminal_obeys_nothing_of_it() -> None:
    """Paths and notes are the texts of other users."""
    lock = Lock(id="1", path="\x1b[2Ja", owner_name="alice", note="\x1b]0;x\x07\nremote: fine", locked_at=AT)
    text = "\n".join(refusal_lines(_verdict(lock), "bob\x1b"))
    assert text.replace("\n", "").isprintable()
    assert len(text.splitlines()) == 2


def test_many_locks_are_counted() -> None:
    """Twenty lines are read; the rest is a number, also that of locks which the answer did not have."""
    locks = [Lock(id=str(n), path=f"{n:03}", owner_name="alice", locked_at=AT) for n in range(37)]
    lines = list(refusal_lines(_verdict(*locks, count=337), "bob"))
    assert len(lines) == 22
    assert lines[-1] == "  and 317 more"
    assert list(release_lines(locks, "refs/heads/main"))[-1] == "  and 17 more"
    assert list(release_lines([], "refs/heads/main")) == []


def test_a_path_of_two_refs_is_told_once() -> None:
    """The same lock may stand in the way of several refs of one push."""
    verdict = Verdict()
    for _ in range(2):
        lock = Lock(id="1", path="a", owner_name="alice", locked_at=AT)
        verdict.add(pb.CheckPushResponse(blocking=[lock], blocking_count=1))
    assert len([line for line in refusal_lines(verdict, "bob") if "locked by" in line]) == 1


def test_an_unknown_pusher_is_told_why() -> None:
    """Otherwise users would look for a lock that is their own."""
    lock = Lock(id="1", path="a", owner_name="alice", locked_at=AT)
    assert "TOWPATH_PUSHER" in list(refusal_lines(_verdict(lock, known=False), ""))[-1]
    assert "Alice.Example is no user" in list(refusal_lines(_verdict(lock, known=False), "Alice.Example"))[-1]
    assert "locked by" in list(refusal_lines(_verdict(lock), "bob"))[-1]
