"""The memory of rights: exact, bounded, and forgotten when it should be."""

import time

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
    with_query = rights.caller(["Basic one"], "/a", "refs/heads/main", b"private_token=x")
    assert rights.seconds_since(with_query, ONE) is None


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


def test_one_caller_leaves_room_for_the_others() -> None:
    """Nobody loses a right to the strangers of a public repository, who are one caller."""
    rights = Rights(max_rights=8, max_of_caller=4)
    person, strangers = rights.caller(["one"], "/a", ""), rights.caller([], "/public", "")
    rights.note(person, [ONE, TWO])
    oids = [f"{number:064x}" for number in range(100)]
    rights.note(strangers, oids)
    assert rights.seconds_since(person, ONE) is not None
    assert [oid for oid in oids if rights.seconds_since(strangers, oid) is not None] == oids[-4:]


def test_the_refs_of_an_object_are_bounded() -> None:
    """The latest ones serve, and a ref that is granted again is one of them."""
    rights = Rights()
    refs = [rights.caller([], "/a", str(number)) for number in range(10)]
    for caller in [*refs[:8], refs[0], *refs[8:]]:
        rights.note(caller, [ONE])
    remembered = [number for number, caller in enumerate(refs) if rights.seconds_since(caller, ONE) is not None]
    assert remembered == [0, 3, 4, 5, 6, 7, 8, 9]


def test_forgetting_takes_the_same_time_however_many_rights_there_are() -> None:
    """A batch that is refused object by object looks at no other rights, while all requests would wait."""
    rights = Rights()
    caller = rights.caller([], "/a", "")
    oids = [f"{number:064x}" for number in range(100_000)]
    rights.note(caller, oids)
    since = time.process_time()
    for oid in oids:
        rights.forget(caller.key, oid)
    # Scanning takes minutes.
    assert time.process_time() - since < 5
    assert not rights.is_any_remembered
