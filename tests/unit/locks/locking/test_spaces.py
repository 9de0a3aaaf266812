"""Rules for lock spaces."""

import asyncio

import pytest

from services.locks.locking.paths import path_hash
from services.locks.locking.spaces import space_of, spaces_of

RULES = ["refs/heads/release/dev=default", "refs/heads/release/*=per-ref", "refs/heads/art/*=art", "refs/*/a=b=odd"]


@pytest.mark.parametrize(
    ("ref", "space"),
    [
        ("refs/heads/main", ""),
        ("refs/heads/release/1.0", "refs/heads/release/1.0"),
        ("refs/heads/release/2.0/hotfix", "refs/heads/release/2.0/hotfix"),
        ("refs/heads/release/dev", ""),
        ("refs/heads/art/anna", "art"),
        ("refs/heads/art/ben", "art"),
        ("refs/heads/a=b", "odd"),
        ("", ""),
        ("refs/heads/release/..", ""),
        ("refs/heads/release/\0", ""),
    ],
)
def test_the_first_rule_that_matches_tells_the_space(ref: str, space: str) -> None:
    """A ref that no rule names, or that git does not accept, is in the default space."""
    assert space_of(RULES, ref) == space


def test_without_rules_there_is_one_space() -> None:
    """The ref has no meaning then."""
    assert space_of([], "refs/heads/main") == ""


def test_long_refs_have_short_spaces() -> None:
    """The answer to a conflict has the space, and a bound; and no two refs have the same."""
    longest = [f"refs/heads/release/{'x' * 3000}{end}" for end in "ab"]
    spaces = {space_of(RULES, ref) for ref in longest}
    assert len(spaces) == 2
    assert all(len(space) < 100 and ":" in space for space in spaces)


async def test_many_refs_leave_turns_for_others() -> None:
    """The longest refs and the slowest rules of a call hold the loop for some milliseconds at a time."""
    rules = [f"refs/heads/*x*y*{number}*z=odd" for number in range(100)]
    finding = asyncio.create_task(spaces_of(rules, [f"refs/heads/{'xy' * 2_000}{number}" for number in range(20)]))
    turns = 0
    while not finding.done():
        await asyncio.sleep(0)
        turns += 1
    assert await finding == [""] * 20
    assert turns > 3


def test_a_path_has_another_key_in_each_space() -> None:
    """The default space has the key that paths have always had, and no path of one space is one of another."""
    assert path_hash("a", "") == path_hash("a")
    keys = [("a", ""), ("a", "b"), ("a", "c"), ("ba", ""), ("b/a", ""), ("a", "refs/heads/b"), ("c/a", "b")]
    assert len({path_hash(path, space) for path, space in keys}) == len(keys)
