"""Templates of the pages, and the filters by which they show text, times and sizes."""

import hashlib
import unicodedata
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

from google.protobuf.timestamp_pb2 import Timestamp
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from services.common.sizes import decimal_size

# Format characters, such as marks that turn the direction of text, and separators of lines would change how the
# text around them is read.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_MAX_UNPRINTABLE = 256
_STATIC = files(__package__).joinpath("static")


def visible(text: str) -> Markup:
    """Return text of strangers as HTML in which each character is seen, and the text around keeps its direction.

    Of a text that cannot be printed as it is, only the first 256 characters are shown, and how many there are: a page
    has a hundred texts of thousands of characters, and a code point takes forty times the room of a character.
    """
    if text.isprintable():
        shown = _escaped(text)
    else:
        beginning = _escaped(text[:_MAX_UNPRINTABLE])
        shown = "".join(_code_point(each) if unicodedata.category(each) in _HIDDEN else each for each in beginning)
        if len(text) > _MAX_UNPRINTABLE:
            shown += f"… ({len(text):,} characters)"
    return Markup(f"<bdi>{shown}</bdi>")  # noqa: S704 - escaped above


def _escaped(text: str) -> str:
    # Text that was marked as safe before is text of strangers too.
    return str.__str__(Markup.escape(str.__str__(text)))


def _code_point(character: str) -> str:
    return f'<span class="code-point">U+{ord(character):04X}</span>'


def moment(stamp: Timestamp | None) -> Markup:
    """Return a time as HTML: UTC, to the minute, with the seconds in its title; nothing for none."""
    if stamp is None or not stamp.seconds:
        return Markup("")
    when = datetime.fromtimestamp(stamp.seconds, UTC)
    exact = f"{when:%Y-%m-%dT%H:%M:%SZ}"
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(exact, f"{when:%Y-%m-%d %H:%M}")


@cache
def static_file(name: str) -> tuple[bytes, str]:
    """Return the bytes of a static file, and their digest. Raises `FileNotFoundError`."""
    data = _STATIC.joinpath(name).read_bytes()
    return data, hashlib.sha256(data).hexdigest()[:16]


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {"visible": visible, "moment": moment, "size": decimal_size}
    environment.globals["digest"] = lambda name: static_file(name)[1]
    return environment


_ENVIRONMENT = _environment()


def render(template: str, **values: object) -> str:
    """Return the HTML of a template."""
    return _ENVIRONMENT.get_template(template).render(**values)
