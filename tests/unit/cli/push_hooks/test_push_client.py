"""The calls of the hooks."""

from services.cli.push_hooks.push_client import in_calls


def test_refs_go_in_calls_that_the_service_takes() -> None:
    """A thousand refs at most, and a megabyte of them, however many a repository has."""
    for refs in ([f"refs/heads/{number}" for number in range(2_001)], ["refs/heads/" + "x" * 4_000] * 600, []):
        calls = list(in_calls(refs))
        assert [ref for call in calls for ref in call] == refs
        assert all(0 < len(call) <= 1_000 and sum(map(len, call)) <= 1024**2 for call in calls)
