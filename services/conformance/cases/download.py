"""The download action (docs/protocol.md, "Basic transfer: download action")."""

from services.conformance.answer import Answer
from services.conformance.case import case
from services.conformance.outcome import Level, NotApplicable
from services.conformance.site import Site


async def _got(site: Site, *headers: tuple[str, str]) -> tuple[Answer, bytes]:
    """Return the answer to the download of an object, and the bytes of the object."""
    blob = await site.held()
    return await site.first.get(await site.first.action("download", blob), *headers), blob.content


@case("Basic transfer: download action", "Trigger, request, response")
async def get_gives_the_bytes(site: Site) -> None:
    """A GET of the action is answered with 200 and the bytes of the object."""
    answer, content = await _got(site)
    answer.expect_status(200)
    answer.expect(answer.content == content, f"the {len(content)} bytes of the object", f"{len(answer.content)} others")


@case("Basic transfer: download action", "Trigger, request, response")
async def the_content_type_is_octet_stream(site: Site) -> None:
    """The Content-Type of the bytes is application/octet-stream."""
    answer, _ = await _got(site)
    answer.expect_media_type("application/octet-stream")


@case("Basic transfer: download action", "Trigger, request, response")
async def the_content_length_is_the_size(site: Site) -> None:
    """The Content-Length is the size of the object."""
    answer, content = await _got(site)
    length = answer.headers.get("content-length", "none")
    answer.expect(length == str(len(content)), f"Content-Length: {len(content)}", length)


def _expect_part(answer: Answer, content: bytes, first: int, last: int) -> None:
    if answer.status == 200:
        answer.expect(answer.content == content, "the whole object with 200, or a part with 206")
        raise NotApplicable("the server ignores ranges, which are optional")
    answer.expect_status(206)
    answer.expect(
        answer.content == content[first : last + 1], f"bytes {first} to {last}", f"{len(answer.content)} others"
    )
    named = answer.headers.get("content-range", "none")
    expected = f"bytes {first}-{last}/{len(content)}"
    answer.expect(named == expected, f"Content-Range: {expected}", named)


@case("Traps of other servers", "8 wrong ranges", Level.SHOULD)
async def a_range_is_exactly_those_bytes(site: Site) -> None:
    """A range of two bytes is those two, with the size of the whole in Content-Range (trap-8)."""
    answer, content = await _got(site, ("Range", "bytes=1-2"))
    _expect_part(answer, content, 1, 2)


@case("Traps of other servers", "8 wrong ranges", Level.SHOULD)
async def a_resumed_download_is_the_rest(site: Site) -> None:
    """The range with which git-lfs resumes a download is the rest of the object (trap-8)."""
    size = (await site.held()).size
    answer, content = await _got(site, ("Range", f"bytes=400-{size - 1}"))
    _expect_part(answer, content, 400, size - 1)


@case("Traps of other servers", "7 sizes of 32 bits", Level.SHOULD)
async def a_range_past_the_end_is_416(site: Site) -> None:
    """A range past the end is 416, or ignored, also past 4 GiB (trap-7)."""
    for first in (1000, 2**32 + 1):
        answer, content = await _got(site, ("Range", f"bytes={first}-"))
        if answer.status == 200:
            answer.expect(answer.content == content, "the whole object with 200, or 416")
            continue
        answer.expect_status(416)
