"""The commands `towpath hook`, and deliveries of a running stack."""

from collections.abc import AsyncIterator

import pytest

from tests.e2e.test_admin_commands import failure, run, text, timeless
from tests.support.http import Client, content, oid_of
from tests.support.receiver import Receiver, answer, running_receiver
from tests.support.stack import Stack
from tests.support.waiting import until


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that accepts everything."""
    async with running_receiver() as running:
        yield running


async def test_hooks(stack: Stack, receiver: Receiver) -> None:
    """`hook add|list|deliveries|redeliver|remove`: what is delivered has the printed secret's signature."""
    stack.towpath("repo", "add", "hooked/one")
    stack.towpath("grant", "alice", "hooked/one", "--role", "write")
    url = receiver.url
    added = stack.towpath("hook", "add", "hooked/one", url, "--events", "lock.*, object.removed", "--allow-private")
    hook, secret = str(added["id"]), added.pop("secret")
    assert timeless(added) == {
        "repository": "hooked/one",
        "url": url,
        "events": ["lock.*", "object.removed"],
        "format": "json",
        "allow_private": True,
    }
    assert added in stack.towpath("hook", "list", "hooked/one")
    assert secret not in "".join(text(stack, "hook", "list"))
    receiver.answers.append(answer(503))
    async with Client(f"{stack.origin}/hooked/one", "alice", stack.tokens["alice"]) as alice:
        assert (await alice.lock("a.psd")).status_code == 201
        data = content("hooked", 500)
        assert (await alice.upload(data)).status_code == 200
    stack.towpath("object", "remove", "hooked/one", oid_of(data), "--reason", "licence")
    await until(lambda: len(receiver.requests) == 3, "the lock, once more, and the object")
    assert [request.verify(secret)["type"] for request in receiver.requests] == [
        "lock.created",
        "lock.created",
        "object.removed",
    ]

    def states() -> list[str]:
        return [delivery["state"] for delivery in stack.towpath("hook", "deliveries", hook)]

    await until(lambda: states() == ["delivered", "delivered"], "both are recorded")
    removed, created = stack.towpath("hook", "deliveries", hook)
    assert timeless(created) == {
        "message_id": receiver.requests[0].id,
        "event": "lock.created",
        "repository": "hooked/one",
        "state": "delivered",
        "attempts": 2,
        "response_status": 204,
    }
    assert stack.towpath("hook", "deliveries", hook, "--failed") == []
    assert stack.towpath("hook", "redeliver", hook, str(removed["id"])) == {"id": added["id"], "queued": 1}
    assert stack.towpath("hook", "redeliver", hook, "--failed") == {"id": added["id"], "queued": 0}
    await until(lambda: len(receiver.requests) == 4, "the object once more")
    assert receiver.requests[3].id == removed["message_id"]
    assert stack.towpath("hook", "remove", hook) == {"id": added["id"]}
    assert f"no hook {hook}" in failure(stack, "hook", "remove", hook)


def test_hooks_that_are_refused(stack: Stack) -> None:
    """Private addresses, unknown events and a repository beside --all-repositories are told as such."""
    assert "private" in failure(stack, "hook", "add", "demo/assets", "https://127.0.0.1/")
    assert "169.254.169.254" in failure(
        stack, "hook", "add", "demo/assets", "https://169.254.169.254/latest", "--allow-private"
    )
    told = failure(stack, "hook", "add", "--all-repositories", "https://93.184.215.14/", "--events", "lock.lost")
    assert "lock.stolen" in told
    for arguments in (
        ("add", "https://93.184.215.14/"),
        ("add", "--all-repositories", "demo/assets", "https://93.184.215.14/"),
        ("redeliver", "1"),
        ("redeliver", "1", "2", "--failed"),
    ):
        assert run("hook", *arguments, "--data", str(stack.data)).returncode == 2
    assert stack.towpath("hook", "list") == []
