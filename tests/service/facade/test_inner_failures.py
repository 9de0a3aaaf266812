"""Answers to a client when an inner service does not answer or is an older one; failures are in tests/protocol."""

import httpx
import pytest
from google.protobuf.message import Message
from towpath.access.v1 import access_service_pb2 as access

from services.common.errors import Reason, Unauthenticated, Unimplemented
from services.facade.auth.action_tokens import Operation
from tests.service.facade.inner_failures import DATA, OID, Running, action_of, check_error, client_of
from tests.support.facade import running_facade
from tests.support.loop import never
from tests.support.waiting import until


async def test_a_service_that_does_not_answer_is_a_504(scripted: Running, http: httpx.AsyncClient) -> None:
    """Every call has a deadline; a service that is not there at all is a 503."""
    inner, facade = scripted
    inner.answers["BatchStatObjects"] = lambda _request: never()
    async with client_of(facade) as client:
        check_error(await client.batch("upload", (OID, 100)), 504)
    async with running_facade("unix:/nonexistent.sock", "unix:/nonexistent.sock", rpc_seconds=0.3) as alone:
        async with client_of(alone) as client:
            check_error(await client.batch("upload", (OID, 100)), 503)
        check_error(await action_of(alone, Operation.UPLOAD).put(DATA), 503)
        ready, alive = [await http.get(f"{alone.origin}/{path}") for path in ("readyz", "healthz")]
    assert (ready.status_code, alive.status_code) == (503, 200)
    assert ready.json() == {
        "status": "not ready",
        "services": {"storage": "not answering", "locks": "not answering"},
    }


@pytest.mark.parametrize("reply", [None, access.CountFailedLoginsResponse()], ids=["not known", "lacks addresses"])
async def test_bad_credentials_are_slowed_all_the_same(scripted: Running, reply: Message | None) -> None:
    """A facade counts for itself where the lock service is of the version before, and tells again and again."""
    inner, facade = scripted
    inner.fail("Authenticate", Unauthenticated(Reason.BAD_CREDENTIALS, "the token is not valid"))
    inner.fail("CountFailedLogins", Unimplemented(Reason.UNIMPLEMENTED, "CountFailedLogins is not implemented"))
    if reply is not None:
        inner.reply("CountFailedLogins", reply)
    told = inner.record("CountFailedLogins")
    async with client_of(facade) as client:
        statuses = [(await client.locks()).status_code for _ in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    await until(lambda: len(told) >= 2)
    assert told[-1].failed[0].count == 10
