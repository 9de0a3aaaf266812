"""Actions at the addresses of the store, as storage signs them; and what happens where it does not."""

import time
from collections.abc import Awaitable, Callable

import httpx
import pytest
from structlog.testing import capture_logs
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import FailedPrecondition, NotFound, Reason, ResourceExhausted, ServiceError, Unavailable
from services.facade.action_tokens import Operation
from tests.service.facade.inner_failures import DATA, OID, Scripted, action_of, check_error, client_of
from tests.support.facade import RunningFacade
from tests.support.http import MEDIA_TYPE

URL = "https://store.example/objects/x?X-Amz-Signature=secret"
HEADERS = {"x-amz-checksum-sha256": "c"}
Stat = pb.BatchStatObjectsResponse.ObjectStat
Running = tuple[Scripted, RunningFacade]


def _held(*, held: bool, is_signed: bool = True) -> pb.BatchStatObjectsResponse:
    stat = Stat(status=pb.OBJECT_STATUS_PRESENT, size=len(DATA)) if held else Stat(status=pb.OBJECT_STATUS_MISSING)
    return pb.BatchStatObjectsResponse(objects=[stat], is_signed=is_signed)


def _signed(seconds: float = 3600, url: str = URL) -> pb.SignObjectUrlsResponse:
    signed = pb.SignObjectUrlsResponse.SignedUrl(url=url, headers=HEADERS)
    signed.expires_at.FromSeconds(int(time.time() + seconds))
    return pb.SignObjectUrlsResponse(objects=[signed])


def _asked(inner: Scripted, name: str) -> list[object]:
    """Return what a call is asked from now on; it is answered as before."""
    asked: list[object] = []
    answer: Callable[[object], Awaitable[object]] = inner.answers[name]

    async def noted(request: object) -> object:
        asked.append(request)
        return await answer(request)

    inner.answers[name] = noted
    return asked


@pytest.mark.parametrize("operation", ["upload", "download"])
async def test_actions_lead_to_the_store(scripted: Running, operation: str) -> None:
    """With its headers and its end; verify leads to the facade, with a token."""
    inner, facade = scripted
    inner.reply("BatchStatObjects", _held(held=operation == "download"))
    inner.reply("SignObjectUrls", _signed(1000))
    asked = _asked(inner, "SignObjectUrls")
    async with client_of(facade) as client:
        actions = (await client.batch(operation, (OID, len(DATA)))).json()["objects"][0]["actions"]
    action = actions[operation]
    assert (action["href"], action["header"]) == (URL, HEADERS)
    assert 990 <= action["expires_in"] <= 1000
    assert ("verify" in actions) == (operation == "upload")
    if "verify" in actions:
        assert actions["verify"]["href"].startswith(facade.origin)
        assert actions["verify"]["header"]["Authorization"].startswith("Bearer ")
    intent = pb.INTENT_WRITE if operation == "upload" else pb.INTENT_READ
    key = pb.SignObjectUrlsRequest.ObjectKey(oid=OID, size=len(DATA))
    assert asked == [
        pb.SignObjectUrlsRequest(
            repository_id=1, intent=intent, objects=[key], expires_in=facade.settings.action_seconds
        )
    ]


@pytest.mark.parametrize(
    ("operation", "held", "is_signed"),
    [("upload", False, False), ("download", True, False), ("upload", True, True), ("download", False, True)],
)
async def test_nothing_is_asked_in_vain(scripted: Running, operation: str, held: bool, is_signed: bool) -> None:
    """No call where storage signs nothing, and none where no bytes move."""
    inner, facade = scripted
    inner.reply("BatchStatObjects", _held(held=held, is_signed=is_signed))
    inner.reply("SignObjectUrls", _signed())
    asked = _asked(inner, "SignObjectUrls")
    async with client_of(facade) as client:
        assert (await client.batch(operation, (OID, len(DATA)))).status_code == 200
    assert asked == []


@pytest.mark.parametrize("signed", [_signed(url=""), _signed(30)])
async def test_without_an_address_the_facade_relays(scripted: Running, signed: pb.SignObjectUrlsResponse) -> None:
    """And where it would end within the minute that every action lasts at least."""
    inner, facade = scripted
    inner.reply("BatchStatObjects", _held(held=True))
    inner.reply("SignObjectUrls", signed)
    async with client_of(facade) as client:
        action = (await client.batch("download", (OID, len(DATA)))).json()["objects"][0]["actions"]["download"]
    assert action["href"].startswith(facade.origin)
    assert action["header"]["Authorization"].startswith("Bearer ")


@pytest.mark.parametrize("error", [Unavailable(Reason.UNAVAILABLE, "no credentials"), None])
async def test_when_storage_cannot_sign_the_facade_relays(scripted: Running, error: ServiceError | None) -> None:
    """It is away, or older than the call; the log says so, once."""
    inner, facade = scripted
    inner.reply("BatchStatObjects", _held(held=True))
    if error is not None:
        inner.fail("SignObjectUrls", error)
    with capture_logs() as logs:
        async with client_of(facade) as client:
            action = (await client.batch("download", (OID, len(DATA)))).json()["objects"][0]["actions"]["download"]
    assert action["href"].startswith(facade.origin)
    assert sum("bytes are relayed" in line["event"] for line in logs) == 1


async def test_what_storage_refuses_is_refused(scripted: Running) -> None:
    """A limit is no reason to relay."""
    inner, facade = scripted
    inner.reply("BatchStatObjects", _held(held=True))
    inner.fail("SignObjectUrls", ResourceExhausted(Reason.BANDWIDTH_EXCEEDED, "too much"))
    async with client_of(facade) as client:
        check_error(await client.batch("download", (OID, len(DATA))), 509)


async def test_a_reply_that_lacks_an_object(scripted: Running) -> None:
    """Is 502."""
    inner, facade = scripted
    inner.reply("BatchStatObjects", _held(held=True))
    inner.reply("SignObjectUrls", pb.SignObjectUrlsResponse())
    async with client_of(facade) as client:
        check_error(await client.batch("download", (OID, len(DATA))), 502)


async def _verify(facade: RunningFacade) -> httpx.Response:
    href, header = action_of(facade, Operation.VERIFY)
    async with client_of(facade) as client:
        body = {"oid": OID, "size": len(DATA)}
        return await client.http.post(href, json=body, headers={**header, "Content-Type": MEDIA_TYPE})


async def test_verify_confirms_what_is_not_held(scripted: Running) -> None:
    """And asks nothing more where it is held."""
    inner, facade = scripted
    inner.reply("ConfirmObject", pb.ConfirmObjectResponse(object=pb.Object(oid=OID, size=len(DATA))))
    asked = _asked(inner, "ConfirmObject")
    inner.reply("BatchStatObjects", _held(held=True))
    assert (await _verify(facade)).status_code == 200
    assert asked == []
    inner.reply("BatchStatObjects", _held(held=False))
    assert (await _verify(facade)).status_code == 200
    assert asked == [pb.ConfirmObjectRequest(repository_id=1, oid=OID, size=len(DATA))]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound(Reason.OBJECT_NOT_FOUND, "not there"), 404),
        (NotFound(Reason.REPOSITORY_NOT_FOUND, "deleted"), 404),
        (FailedPrecondition(Reason.OBJECT_REMOVED, "removed", removal_reason="a licence"), 410),
        (Unavailable(Reason.UNAVAILABLE, "the store is away"), 503),
        (None, 404),
    ],
)
async def test_verify_tells_what_cannot_be_confirmed(
    scripted: Running, error: ServiceError | None, status: int
) -> None:
    """As it tells of what is relayed; never 422, which a client takes for success."""
    inner, facade = scripted
    inner.reply("BatchStatObjects", _held(held=False))
    if error is not None:
        inner.fail("ConfirmObject", error)
    check_error(await _verify(facade), status)
