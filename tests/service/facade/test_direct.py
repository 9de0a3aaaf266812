"""Actions at the addresses of the store, as storage signs them; and what happens where it does not."""

import time

import httpx
import pytest
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import FailedPrecondition, NotFound, Reason, ServiceError, Unavailable
from services.facade.auth.action_tokens import Operation
from tests.service.facade.inner_failures import DATA, OID, Running, action_of, check_error, client_of
from tests.support.facade import RunningFacade
from tests.support.http import MEDIA_TYPE

URL = "https://store.example/objects/x?X-Amz-Signature=secret"
HEADERS = {"x-amz-checksum-sha256": "c"}
Stat = pb.BatchStatObjectsResponse.ObjectStat


def _held(*, held: bool) -> pb.BatchStatObjectsResponse:
    stat = Stat(status=pb.OBJECT_STATUS_PRESENT, size=len(DATA)) if held else Stat(status=pb.OBJECT_STATUS_MISSING)
    return pb.BatchStatObjectsResponse(objects=[stat])


def _signed(*, held: bool = True, seconds: float = 3600) -> pb.BatchStatObjectsResponse:
    answer = _held(held=held)
    signed = pb.SignObjectUrlsResponse.SignedUrl(url=URL, headers=HEADERS)
    signed.expires_at.FromSeconds(int(time.time() + seconds))
    answer.objects[0].signed.CopyFrom(signed)
    return answer


@pytest.mark.parametrize("operation", ["upload", "download"])
async def test_actions_lead_to_the_store(scripted: Running, operation: str) -> None:
    """With its headers and its end, in one call; verify leads to the facade, with a token."""
    inner, facade = scripted
    inner.reply("BatchStatObjects", _signed(held=operation == "download", seconds=1000))
    asked = inner.record("BatchStatObjects")
    async with client_of(facade) as client:
        actions = (await client.batch(operation, (OID, len(DATA)))).json()["objects"][0]["actions"]
    action = actions[operation]
    assert (action["href"], action["header"]) == (URL, HEADERS)
    assert 990 <= action["expires_in"] <= 1000
    assert ("verify" in actions) == (operation == "upload")
    if "verify" in actions:
        assert actions["verify"]["href"].startswith(facade.origin)
        assert actions["verify"]["header"]["X-Towpath-Token"]
    intent = pb.INTENT_WRITE if operation == "upload" else pb.INTENT_READ
    key = pb.BatchStatObjectsRequest.ObjectKey(oid=OID, size=len(DATA))
    assert asked == [
        pb.BatchStatObjectsRequest(
            repository_id=1,
            intent=intent,
            objects=[key],
            expires_in=facade.settings.action_seconds,
            # The quota of a user counts for what the user announces.
            user_id=1 if operation == "upload" else 0,
        )
    ]


@pytest.mark.parametrize("found", [_held(held=True), _signed(seconds=30)])
async def test_without_an_address_the_facade_relays(scripted: Running, found: pb.BatchStatObjectsResponse) -> None:
    """The facade relays if the store gives no URL or a URL that ends within the minute an action lasts at least."""
    inner, facade = scripted
    inner.reply("BatchStatObjects", found)
    async with client_of(facade) as client:
        action = (await client.batch("download", (OID, len(DATA)))).json()["objects"][0]["actions"]["download"]
    assert action["href"].startswith(facade.origin)
    assert action["header"]["X-Towpath-Token"]


async def _verify(facade: RunningFacade) -> httpx.Response:
    action = action_of(facade, Operation.VERIFY)
    async with client_of(facade) as client:
        body, headers = {"oid": OID, "size": len(DATA)}, {**action.header, "Content-Type": MEDIA_TYPE}
        return await client.http.post(action.href, json=body, headers=headers)


async def test_verify_confirms_what_is_not_held(scripted: Running) -> None:
    """Verify confirms an object only if it is not held yet, so that a held object costs no further call."""
    inner, facade = scripted
    inner.reply("ConfirmObject", pb.ConfirmObjectResponse(object=pb.Object(oid=OID, size=len(DATA))))
    asked = inner.record("ConfirmObject")
    inner.reply("BatchStatObjects", _held(held=True))
    answer = await _verify(facade)
    assert (answer.status_code, answer.headers.get("Connection")) == (200, None)
    assert asked == []
    inner.reply("BatchStatObjects", _held(held=False))
    answer = await _verify(facade)
    # Clients that keep such connections ask a facade that is killed until they give up.
    assert (answer.status_code, answer.headers.get("Connection")) == (200, "close")
    assert asked == [pb.ConfirmObjectRequest(repository_id=1, oid=OID, size=len(DATA))]


@pytest.mark.parametrize(("removed", "status"), [(False, 200), (True, 410)])
async def test_verify_confirms_what_was_collected(scripted: Running, removed: bool, status: int) -> None:
    """Storage knows whether an object was removed as garbage meanwhile, which its confirmation ends, or for good."""
    inner, facade = scripted
    stat = Stat(status=pb.OBJECT_STATUS_REMOVED, removal_reason="no ref names it")
    inner.reply("BatchStatObjects", pb.BatchStatObjectsResponse(objects=[stat]))
    inner.reply("ConfirmObject", pb.ConfirmObjectResponse(object=pb.Object(oid=OID, size=len(DATA))))
    if removed:
        inner.fail("ConfirmObject", FailedPrecondition(Reason.OBJECT_REMOVED, "removed", removal_reason="a licence"))
    assert (await _verify(facade)).status_code == status


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
