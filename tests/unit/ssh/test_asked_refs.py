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
    refs = AskedRefs(max_objects=8)
    for oid in ("1", "2", "1", "3"):
        refs.record("alice", "a", oid, "r")
    assert [refs.find("alice", "a", oid) for oid in ("1", "2", "3")] == ["r", "", "r"]


def test_a_user_who_asks_for_many_takes_nothing_from_others() -> None:
    """A quarter is one user's share; beyond the whole, those who asked least recently lose theirs."""
    refs = AskedRefs(max_objects=4)
    refs.record("alice", "a", "1", "r")
    for number in range(10):
        refs.record("mallory", "a", str(number), "r")
    assert refs.find("alice", "a", "1") == "r"
    for user in ("bob", "carol", "dave"):
        refs.record(user, "a", "1", "r")
    kept = [refs.find(user, "a", "1") for user in ("alice", "bob", "carol", "dave")]
    assert kept == ["", "r", "r", "r"]
    assert refs.find("mallory", "a", "9") == "r"
