"""The refs for which users have asked for objects."""

from services.ssh.asked_refs import AskedRefs


def test_the_last_ref_counts_for_its_user_and_repository_alone() -> None:
    """A ref is what its user says, and no other user's."""
    refs = AskedRefs()
    refs.record("alice", "a", "1", "refs/heads/x")
    refs.record("alice", "a", "1", "refs/heads/y")
    assert refs.find("alice", "a", "1") == "refs/heads/y"
    assert [refs.find("bob", "a", "1"), refs.find("alice", "b", "1"), refs.find("alice", "a", "2")] == ["", "", ""]


def test_the_oldest_are_forgotten() -> None:
    """Whoever asks for many objects fills no memory."""
    refs = AskedRefs(max_objects=2)
    for oid in ("1", "2", "1", "3"):
        refs.record("alice", "a", oid, "r")
    assert [refs.find("alice", "a", oid) for oid in ("1", "2", "3")] == ["r", "", "r"]
