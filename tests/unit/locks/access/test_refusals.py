"""Explanations of refusals: without credentials, and of bounded size."""

import json

import pytest

from services.locks.access.refusals import Refused, redacted


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("tp_abcdefgh-ijkl_mnop", "abcdefgh"),
        ("a tp_\0abcdefgh", "abcdefgh"),
        ("Bearer abcdefghijkl", "abcdefgh"),
        ("basic YWxpY2U6c2VjcmV0", "YWxpY2U6"),
        ("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2lnbmF0dXJl", "c2lnbmF0dXJl"),
        ("refs/heads/ghp_abcdefgh", "abcdefgh"),
        ("github_pat_11ABC_defghij", "defghij"),
        ("glpat-abcd-efgh.01.ijkl", "ijkl"),
        ("glptt-abcdefgh", "abcdefgh"),
        ("token of gitea 0123456789abcdef0123456789abcdef01234567", "89abcdef"),
        ("https://alice:se@cret@git.example.org/film", "cret"),
        ("ssh://alice:secret@host", "secret"),
        ("studio/film?access_token=abcdefgh&x=1", "abcdefgh"),
        ("studio/film?PRIVATE_TOKEN=abcdefgh", "abcdefgh"),
        ("key=abcdefgh", "abcdefgh"),
        ("x" * 490 + " tp_abcdefghijklmnopqrstuvwxyz", "abcd"),
    ],
)
def test_a_credential_is_hidden(text: str, secret: str) -> None:
    """Wherever a client may have put one: in a path, a ref or a name."""
    assert secret in text.replace("\0", "")
    assert secret not in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "refs/heads/glacier-textures",
        "refs/heads/ghosts",
        f"no object {'0123456789abcdef' * 4}",
        "studio/keys and tokens",
        "the token was revoked",
        "someone@example.org has no grant of the role write",
    ],
)
def test_other_text_stays(text: str) -> None:
    """An explanation without its words explains nothing."""
    assert redacted(text) == text


@pytest.mark.parametrize("character", ["a", "\N{SNOWMAN}", "\N{PILE OF POO}"])
def test_texts_are_cut_by_bytes(character: str) -> None:
    """Without half a character at the end."""
    cut = redacted(character * 10_000)
    assert 496 < len(cut.encode()) <= 500
    assert set(cut) == {character}


def test_grants_are_cut_by_bytes() -> None:
    """Ref patterns make way before grants, and their number is told."""
    wide = {"source": "user", "source_name": "", "role": "write", "ref_patterns": ["\N{SNOWMAN}" * 255] * 100}
    narrow = {"source": "group", "source_name": "artists", "role": "read", "ref_patterns": []}
    values = Refused("ACCESS_DENIED", "", "", grants=[narrow, wide, *[narrow] * 1_000]).values()
    assert len(values["grants"].encode()) <= 4096
    first, cut, *others = json.loads(values["grants"])
    assert first == narrow
    assert cut["ref_patterns"][-1] == f"and {100 - (len(cut['ref_patterns']) - 1)} more"
    assert 0 < len(others) < 50
    assert json.loads(Refused("", "", "", grants=[narrow]).values()["grants"]) == [narrow]
