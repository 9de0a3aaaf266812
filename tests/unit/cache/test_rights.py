"""The memory of rights: exact, bounded, and forgotten when it should be."""

from services.cache.rights import Rights

ONE, TWO = "1" * 64, "2" * 64


def test_a_right_is_of_one_caller_repository_ref_and_object() -> None:
    """No other credential, repository, ref or object has it."""
    rights = Rights()
    caller = rights.caller(["Basic one"], "/a", "refs/heads/main")
    rights.note(caller, [ONE])
    seconds = rights.seconds_since(caller, ONE)
    assert seconds is not None
    assert 0 <= seconds < 60
    assert rights.seconds_since(caller, TWO) is None
    others = [
        (["Basic two"], "/a", "refs/heads/main"),
        ([], "/a", "refs/heads/main"),
        (["Basic one", ""], "/a", "refs/heads/main"),
        (["Basic ", "one"], "/a", "refs/heads/main"),
        (["Basic one"], "/b", "refs/heads/main"),
        (["Basic one"], "/a", "refs/heads/other"),
        (["Basic one"], "/a", ""),
        (["one"], "/aBasic ", "refs/heads/main"),
    ]
    for other in others:
        assert rights.seconds_since(rights.caller(*other), ONE) is None, other


def test_forgetting() -> None:
    """One object of a caller, for all refs; or all that the caller has, and no one else."""
    rights = Rights()
    main, branch = rights.caller(["one"], "/a", "main"), rights.caller(["one"], "/a", "branch")
    other = rights.caller(["two"], "/a", "main")
    for caller in (main, branch, other):
        rights.note(caller, [ONE, TWO])
    rights.forget(main.key, ONE)
    assert rights.seconds_since(main, ONE) is None
    assert rights.seconds_since(branch, ONE) is None
    assert rights.seconds_since(main, TWO) is not None
    assert rights.seconds_since(other, ONE) is not None
    rights.forget(branch.key)
    assert rights.seconds_since(main, TWO) is None
    rights.forget(other.key)
    assert not rights.is_any_remembered


def test_it_is_bounded() -> None:
    """The callers that were heard of the longest ago go first; a single one loses its oldest rights."""
    rights = Rights(max_rights=3)
    callers = [rights.caller([str(number)], "/a", "") for number in range(4)]
    for caller in callers[:3]:
        rights.note(caller, [ONE])
    rights.note(callers[0], [ONE])
    rights.note(callers[3], [ONE])
    assert [rights.seconds_since(caller, ONE) is not None for caller in callers] == [True, False, True, True]
    rights.note(callers[0], [f"{number:064x}" for number in range(10)])
    remembered = [number for number in range(10) if rights.seconds_since(callers[0], f"{number:064x}") is not None]
    assert remembered == [7, 8, 9]
    assert rights.seconds_since(callers[3], ONE) is None
