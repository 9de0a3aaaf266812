"""Requests without credentials, or with wrong ones (docs/protocol.md, "Authentication").

Each case sends at most one wrong password, so that no server takes the run for an attack.
"""

from dataclasses import replace

from services.conformance.answer import Answer
from services.conformance.blobs import new_blob
from services.conformance.case import case
from services.conformance.client import Credentials
from services.conformance.outcome import Level
from services.conformance.site import Site


async def _unasked(site: Site) -> Answer:
    """Return the answer to an upload without credentials."""
    return await site.nobody.batch("upload", new_blob().entry)


@case("Authentication", "3 401 without")
async def an_upload_without_credentials_is_401(site: Site) -> None:
    """A batch for upload without credentials is 401, so that clients ask for them."""
    (await _unasked(site)).expect_status(401)


@case("Authentication", "3 401 without")
async def locking_without_credentials_is_401(site: Site) -> None:
    """The creation and the verification of locks without credentials is 401."""
    site.require_locks()
    nobody = site.nobody
    (await nobody.verify_locks()).expect_status(401)
    (await nobody.lock(site.new_path())).expect_status(401)


@case("Authentication", "4 the challenge", Level.SHOULD)
async def a_401_has_the_challenge(site: Site) -> None:
    """A 401 has the challenge in the header of the dialect, with a scheme."""
    answer = await _unasked(site)
    name = site.first.dialect.challenge
    answer.expect(answer.headers.get(name, "").strip(), f"the header {name}", ", ".join(answer.headers))


@case("Authentication", "4 the challenge", Level.SHOULD)
async def a_challenge_names_scheme_and_realm(site: Site) -> None:
    """The challenge, if there is one, names the scheme and the realm."""
    answer = await _unasked(site)
    value = answer.headers.get(site.first.dialect.challenge, "")
    if value:
        answer.expect(" realm=" in value.lower(), 'such as Basic realm="name"', value)


@case("Error body", "message")
async def a_401_has_a_message(site: Site) -> None:
    """The body of a 401 is JSON with a message."""
    answer = await _unasked(site)
    answer.expect_message()


@case("Common request and response conventions", "Accept")
async def a_401_has_the_media_type(site: Site) -> None:
    """The body of a 401 has the media type of the dialect."""
    answer = await _unasked(site)
    answer.expect_media_type(site.first.dialect.media_type)


@case("Authentication", "3 401 without")
async def wrong_credentials_are_401(site: Site) -> None:
    """A wrong password under a right name is 401."""
    client = site.nobody
    user = site.first.credentials.user if site.first.credentials else "towpath-conformance"
    wrong = replace(client, credentials=Credentials(user, f"wrong-{new_blob().oid}"))
    (await wrong.batch("upload", new_blob().entry)).expect_status(401)


@case("Authentication", "5 permissions")
async def who_may_not_read_gets_nothing(site: Site) -> None:
    """The locks of a repository that nobody may read without credentials are not listed without."""
    site.require_locks()
    nobody = site.nobody
    if (await nobody.batch("download", new_blob().entry)).status == 200:
        (await nobody.locks()).expect_status(200, 401, 403)
        return
    (await nobody.locks()).expect_status(401, 403)
