"""Text of strangers in pages."""

import hashlib
import time
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from services.facade.pages.rendering import moment, static_file, visible


class _Shown(HTMLParser):
    """The elements and the text that a browser makes of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[str] = set()
        self.text = ""
        self.feed(str.__str__(html))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.add(f"{tag}{attrs}")

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data


@given(st.text(max_size=256))
def test_text_makes_no_element(text: str) -> None:
    """Each character is shown, or the number of one that hides or turns others."""
    shown = _Shown(visible(text))
    assert shown.elements <= {"bdi[]", "span[('class', 'code-point')]"}
    hidden = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    expected = "".join(f"U+{ord(one):04X}" if unicodedata.category(one) in hidden else one for one in text)
    assert shown.text == expected


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("Content/Harbour.umap", "<bdi>Content/Harbour.umap</bdi>"),
        ("<b>&\"'", "<bdi>&lt;b&gt;&amp;&#34;&#39;</bdi>"),
        ("a\u202eb", '<bdi>a<span class="code-point">U+202E</span>b</bdi>'),
        ("a\nb", '<bdi>a<span class="code-point">U+000A</span>b</bdi>'),
        ("\u200b", '<bdi><span class="code-point">U+200B</span></bdi>'),
        ("日本é", "<bdi>日本é</bdi>"),
        ("", "<bdi></bdi>"),
    ],
)
def test_visible(text: str, html: str) -> None:
    """Text as HTML."""
    assert visible(text) == html


def test_a_long_text_takes_little_room_and_time() -> None:
    """A page of the longest paths, all of one character, is no burden: of what cannot be printed, a part is shown."""
    began = time.process_time()
    pages = {character: "".join(visible(character * 4_000) for _ in range(100)) for character in "x'\u202e\x01"}
    assert time.process_time() - began < 0.2 * len(pages)
    assert max(map(len, pages.values())) < 2_500_000
    assert visible("x" * 4_000) == f"<bdi>{'x' * 4_000}</bdi>"
    assert visible("\n" * 4_000).count("U+000A") == 256
    assert "… (4,000 characters)" in visible("\n" * 4_000)


def test_markup_is_text_too() -> None:
    """Text that was marked as safe before is escaped all the same."""
    assert "<b>" not in visible(Markup("<b>"))


def test_moments() -> None:
    """UTC, to the minute, with the seconds beside them; nothing for none."""
    assert moment(None) == moment(Timestamp()) == ""
    exact = "2026-11-27T14:05:09Z"
    stamp = Timestamp()
    stamp.FromJsonString(exact)
    assert moment(stamp) == f'<time datetime="{exact}" title="{exact}">2026-11-27 14:05</time>'


def test_htmx_is_the_file_that_the_decision_names() -> None:
    """Nothing of it was changed."""
    data, _ = static_file("htmx.min.js")
    assert b'version:"2.0.11"' in data
    decision = (Path(__file__).parents[4] / "docs" / "decisions" / "0047-pages.md").read_text()
    assert f"sha256 {hashlib.sha256(data).hexdigest()}" in decision
