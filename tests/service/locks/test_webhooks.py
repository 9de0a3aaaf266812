"""Deliveries to webhooks, from the change of a lock to a receiver."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from standardwebhooks.webhooks import WebhookVerificationError
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import FailedPrecondition, InvalidArgument, NotFound, Reason
from services.common.rpc.client import ServiceClient
from services.locks.webhooks.deliveries import prune
from services.locks.webhooks.worker import Retries
from tests.service.locks.conftest import Team
from tests.support.health import wait_serving
from tests.support.locks import NO_STORAGE, RunningLocks, refused, running_locks
from tests.support.postgres import TestPostgres
from tests.support.receiver import OK, Receiver, answer, running_receiver
from tests.support.service_process import service_process
from tests.support.storage import running_storage
from tests.support.waiting import STEP_SECONDS, until, until_answer

_QUICK = Retries(first=timedelta(milliseconds=20), longest=timedelta(milliseconds=50))
_EVENTS = ("lock.*", "object.removed", "quota.*")


@pytest.fixture(scope="module")
async def service(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningLocks]:
    """A lock service that does not wait long before it tries again."""
    folder = tmp_path_factory.mktemp("webhooks")
    async with running_locks(await postgres.create_database(), folder, retries=_QUICK) as running:
        yield running


@pytest.fixture(autouse=True)
async def own_hooks(service: RunningLocks) -> AsyncIterator[None]:
    """Hooks of one test alone: deliveries to receivers that are gone would be tried again all the time."""
    yield
    for hook in (await service.admin_peer.call(service.admin.ListHooks, admin.ListHooksRequest())).hooks:
        await service.admin_peer.call(service.admin.DeleteHook, admin.DeleteHookRequest(id=hook.id))


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that accepts everything."""
    async with running_receiver() as running:
        yield running


async def _add(
    service: RunningLocks,
    repository: str,
    url: str,
    *,
    events: tuple[str, ...] = _EVENTS,
    form: admin.HookFormat.ValueType = admin.HOOK_FORMAT_UNSPECIFIED,
    private: bool = True,
) -> admin.CreateHookResponse:
    request = admin.CreateHookRequest(repository=repository, url=url, events=events, format=form, allow_private=private)
    return await service.admin_peer.call(service.admin.CreateHook, request)


async def _deliveries(service: RunningLocks, hook_id: int, *, failed: bool = False) -> list[admin.HookDelivery]:
    request = admin.ListHookDeliveriesRequest(hook_id=hook_id, failed=failed, limit=1_000)
    return list((await service.admin_peer.call(service.admin.ListHookDeliveries, request)).deliveries)


async def _redeliver(service: RunningLocks, hook_id: int, delivery_id: int | None = None) -> int:
    request = admin.RedeliverHookRequest(hook_id=hook_id)
    if delivery_id is None:
        request.failed = True
    else:
        request.delivery_id = delivery_id
    return (await service.admin_peer.call(service.admin.RedeliverHook, request)).count


async def _hook(service: RunningLocks, hook_id: int) -> admin.Hook:
    hooks = (await service.admin_peer.call(service.admin.ListHooks, admin.ListHooksRequest())).hooks
    [found] = [hook for hook in hooks if hook.id == hook_id]
    return found


async def _all_delivered(service: RunningLocks, hook_id: int, count: int) -> None:
    async def delivered() -> int:
        return sum(found.HasField("delivered_at") for found in await _deliveries(service, hook_id))

    await until_answer(count, delivered)


async def test_the_fourth_attempt_has_the_id_of_the_first(
    service: RunningLocks, team: Team, receiver: Receiver
) -> None:
    """A receiver that fails three times gets the event all the same, and each attempt has a signature that is valid."""
    added = await _add(service, team.repository, receiver.url)
    assert added.secret.startswith("whsec_")
    receiver.answers += [answer(500), answer(503), b""]
    lock = await service.create(team.repository_id, team.alice, "Content/Maps/ä.umap")
    await _all_delivered(service, added.hook.id, 1)
    assert len(receiver.requests) == 4
    assert len({request.id for request in receiver.requests}) == 1
    [delivery] = await _deliveries(service, added.hook.id)
    assert (delivery.message_id, delivery.attempts) == (receiver.requests[0].id, 4)
    assert (delivery.response_status, delivery.problem) == (204, "")
    assert delivery.repository == team.repository
    for request in receiver.requests:
        body = request.verify(added.secret)
    with pytest.raises(WebhookVerificationError):
        request.verify("whsec_" + 43 * "A" + "=")
    assert request.path == "/hook?for=towpath"
    assert request.headers["content-type"] == "application/json"
    assert body.pop("timestamp").endswith("Z")
    assert body == {
        "type": "lock.created",
        "data": {
            "repository": {"id": team.repository_id, "name": team.repository},
            "lock": {
                "id": lock.id,
                "path": "Content/Maps/ä.umap",
                "locked_at": lock.locked_at.ToJsonString(),
                "owner": {"name": team.alice_name},
            },
            "by": {"name": team.alice_name},
            "forced": False,
        },
    }


async def test_a_receiver_that_asks_to_wait(service: RunningLocks, team: Team, receiver: Receiver) -> None:
    """Its Retry-After is kept where it is longer than the next pause."""
    added = await _add(service, team.repository, receiver.url)
    receiver.answers.append(answer(503, "Retry-After: 600"))
    await service.create(team.repository_id, team.alice, "a.psd")
    pause = "SELECT next_attempt_at - created_at > interval '590 s' FROM hook_deliveries WHERE hook_id = :id"

    async def waits() -> bool:
        [[is_long]] = await service.execute(pause, id=added.hook.id)
        return bool(is_long)

    await until_answer(True, waits)
    await service.execute("UPDATE hook_deliveries SET next_attempt_at = now() WHERE hook_id = :id", id=added.hook.id)
    await _all_delivered(service, added.hook.id, 1)


async def test_a_release_tells_who_released(service: RunningLocks, team: Team, receiver: Receiver) -> None:
    """A release by force has the name of another than the owner."""
    hook = (await _add(service, team.repository, receiver.url, events=("lock.released",))).hook
    own = await service.create(team.repository_id, team.alice, "own")
    other = await service.create(team.repository_id, team.alice, "other")
    await service.delete(team.repository_id, team.alice, own.id)
    await service.delete(team.repository_id, team.bob, other.id, force=True)
    await _all_delivered(service, hook.id, 2)
    told = [request.json["data"] for request in receiver.requests]
    assert [(data["lock"]["id"], data["by"]["name"], data["forced"]) for data in told] == [
        (own.id, team.alice_name, False),
        (other.id, team.bob_name, True),
    ]


async def test_two_services_deliver_nothing_twice(
    service: RunningLocks, team: Team, receiver: Receiver, tmp_path: Path
) -> None:
    """Each event of many repositories is delivered by one of the services, and those of a repository in their order."""
    repositories = [team.repository_id]
    repositories += [await service.add_repository(f"{team.repository}/{number}") for number in range(5)]
    hook = (await _add(service, "", receiver.url)).hook
    async with service.second(tmp_path, retries=_QUICK) as second:

        async def lock_and_unlock(running: RunningLocks, repository_id: int) -> None:
            for number in range(4):
                lock = await running.create(repository_id, team.alice, f"{running.address}/{number}")
                await running.delete(repository_id, team.alice, lock.id)

        both = itertools.product((service, second), repositories)
        await asyncio.gather(*(lock_and_unlock(*each) for each in both))
        await until(lambda: len(receiver.requests) >= 96)
        await _all_delivered(service, hook.id, 96)
        deliveries = await _deliveries(service, hook.id)
    assert len(deliveries) == 96
    assert len({request.id for request in receiver.requests}) == len(receiver.requests) == 96
    assert {delivery.attempts for delivery in deliveries} == {1}
    by_path: dict[tuple[int, str], list[str]] = {}
    for request in receiver.requests:
        data = request.json["data"]
        by_path.setdefault((data["repository"]["id"], data["lock"]["path"]), []).append(request.json["type"])
    assert len(by_path) == 48
    assert {tuple(types) for types in by_path.values()} == {("lock.created", "lock.released")}


async def test_a_killed_service_is_followed_by_another(
    postgres: TestPostgres, receiver: Receiver, tmp_path: Path
) -> None:
    """A delivery in whose midst its service is killed is repeated by another one, with the same id."""
    url = await postgres.create_database()
    async with running_locks(url, tmp_path) as service:
        user = await service.add_user("alice")
        repository = await service.add_repository("film")
        hook = (await _add(service, "film", receiver.url)).hook
    receiver.may_answer.clear()
    address = f"unix:{tmp_path / 'process.sock'}"
    settings = {
        "locks_listen": address,
        "locks_database_url": url.get_secret_value(),
        "storage_address": NO_STORAGE,
    }
    with service_process("locks", tmp_path / "log", settings=settings) as process:
        async with grpc.aio.insecure_channel(address) as channel:
            await wait_serving(channel)
        peer = ServiceClient(address, deadline=STEP_SECONDS)
        killed = RunningLocks(address, url, peer, peer, "")
        await killed.create(repository, user, "a.psd")
        await killed.create(repository, user, "b.psd")
        await until(lambda: receiver.requests, "the first attempt")
        process.kill()
        await asyncio.to_thread(process.wait, STEP_SECONDS)
        await peer.close()
    receiver.may_answer.set()
    async with service.second(tmp_path, retries=_QUICK) as second:
        assert [found.attempts for found in await _deliveries(second, hook.id)] == [0, 1]
        assert receiver.paths == ["a.psd"]
        # What a killed service has claimed may be claimed again after a minute.
        await second.execute("UPDATE hook_deliveries SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL")
        await _all_delivered(second, hook.id, 2)
        assert [found.attempts for found in await _deliveries(second, hook.id)] == [1, 2]
    assert receiver.paths == ["a.psd", "a.psd", "b.psd"]
    assert receiver.requests[0].id == receiver.requests[1].id != receiver.requests[2].id


async def test_a_service_that_stops_lets_an_attempt_end(
    postgres: TestPostgres, receiver: Receiver, tmp_path: Path
) -> None:
    """A restart repeats no delivery to a receiver that answers in time."""
    url = await postgres.create_database()
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(running_locks(url, tmp_path, limits={"drain_seconds": STEP_SECONDS}))
        user, repository = await running.add_user("alice"), await running.add_repository("film")
        hook = (await _add(running, "film", receiver.url)).hook
        receiver.may_answer.clear()
        await running.create(repository, user, "a.psd")
        await until(lambda: receiver.requests, "the attempt")
        stopping = asyncio.create_task(stack.aclose())
        await until(lambda: not (tmp_path / "locks.sock").exists(), "the service serves no more")
        receiver.may_answer.set()
        await stopping
    async with running.second(tmp_path, retries=_QUICK) as second:
        await _all_delivered(second, hook.id, 1)
    assert len(receiver.requests) == 1


async def test_order_is_kept_while_an_earlier_one_is_repeated(
    service: RunningLocks, team: Team, receiver: Receiver
) -> None:
    """Later events of the repository wait for the first, and those of another repository do not."""
    other = await service.add_repository(f"{team.repository}/other")
    hook = (await _add(service, "", receiver.url)).hook
    async with running_receiver() as second:
        second_hook = (await _add(service, team.repository, second.url)).hook
        receiver.otherwise = answer(500)
        for name in ("first", "second", "third"):
            await service.create(team.repository_id, team.alice, name)
        await until(lambda: len(receiver.requests) >= 3, "attempts")
        assert set(receiver.paths) == {"first"}
        receiver.answers += 2 * [answer(500)]
        await service.create(other, team.alice, "elsewhere")
        await until(lambda: "elsewhere" in receiver.paths, "the other repository")
        assert set(receiver.paths) == {"first", "elsewhere"}
        await _all_delivered(service, second_hook.id, 3)
        assert second.paths == ["first", "second", "third"]
    receiver.otherwise = OK
    await _all_delivered(service, hook.id, 4)
    paths = [path for path in receiver.paths if path != "elsewhere"]
    assert paths == [*(len(paths) - 2) * ["first"], "second", "third"]


async def test_a_slow_receiver_holds_up_no_other(service: RunningLocks, team: Team, receiver: Receiver) -> None:
    """One that does not answer has a few attempts at a time, whatever the number of repositories."""
    slow = (await _add(service, "", receiver.url)).hook
    receiver.may_answer.clear()
    async with running_receiver() as quick:
        hook = (await _add(service, team.repository, quick.url)).hook
        for number in range(6):
            repository = await service.add_repository(f"{team.repository}/slow-{number}")
            await service.create(repository, team.alice, f"{number}")
        await until(lambda: len(receiver.requests) == 4, "as many attempts as there may be")
        for name in ("first", "second", "third"):
            await service.create(team.repository_id, team.alice, name)
        await _all_delivered(service, hook.id, 3)
        assert quick.paths == ["first", "second", "third"]
    assert len(receiver.requests) == 4
    receiver.may_answer.set()
    await _all_delivered(service, slow.id, 9)


async def test_gone_disables_a_hook(service: RunningLocks, team: Team, receiver: Receiver) -> None:
    """After 410 nothing more is sent: what is pending ends, and what happens later is not queued."""
    hook = (await _add(service, team.repository, receiver.url)).hook
    receiver.otherwise = answer(410)
    receiver.may_answer.clear()
    await service.create(team.repository_id, team.alice, "first")
    await until(lambda: receiver.requests, "the attempt")
    await service.create(team.repository_id, team.alice, "second")
    receiver.may_answer.set()

    async def is_disabled() -> bool:
        return (await _hook(service, hook.id)).HasField("disabled_at")

    await until(is_disabled, "the hook is disabled")
    await service.create(team.repository_id, team.alice, "third")
    assert "410" in (await _hook(service, hook.id)).disabled_because
    ended = await _deliveries(service, hook.id, failed=True)
    assert [(found.attempts, found.response_status) for found in ended] == [(0, 0), (1, 410)]
    assert [found.problem for found in ended] == ["the hook is disabled", "the receiver answered 410"]
    assert receiver.paths == ["first"]
    # A lock that was taken at the same moment, whose transaction has still seen the hook as it was before.
    late = (
        "INSERT INTO hook_deliveries (hook_id, repository_id, event_type, payload)"
        " SELECT hook_id, repository_id, event_type, payload FROM hook_deliveries WHERE id = :id"
    )
    await service.execute(late, id=ended[0].id)

    async def problems() -> list[str]:
        return [found.problem for found in await _deliveries(service, hook.id, failed=True)]

    await until_answer(["the hook is disabled", "the hook is disabled", "the receiver answered 410"], problems)
    assert receiver.paths == ["first"]
    for delivery_id in (None, ended[0].id):
        with refused(FailedPrecondition, Reason.HOOK_DISABLED):
            await _redeliver(service, hook.id, delivery_id)


async def test_given_up_and_redelivered(postgres: TestPostgres, receiver: Receiver, tmp_path: Path) -> None:
    """After the window the next event has its turn; an operator can have the lost ones delivered, with their ids."""
    retries = Retries(first=timedelta(milliseconds=10), longest=timedelta(milliseconds=20), window=timedelta(seconds=2))
    async with running_locks(await postgres.create_database(), tmp_path, retries=retries) as service:
        user, repository = await service.add_user("alice"), await service.add_repository("film")
        hook = (await _add(service, "film", receiver.url)).hook
        receiver.otherwise = answer(500)
        for name in ("first", "second"):
            await service.create(repository, user, name)

        async def given_up() -> int:
            return len(await _deliveries(service, hook.id, failed=True))

        await until_answer(2, given_up)
        lost = await _deliveries(service, hook.id, failed=True)
        assert {(found.problem, found.response_status) for found in lost} == {("the receiver answered 500", 500)}
        # The second waits for the first, and is tried at least once although its time has passed then.
        assert lost[1].attempts > 1
        assert lost[0].attempts >= 1
        receiver.otherwise = OK
        await service.create(repository, user, "third")
        await _all_delivered(service, hook.id, 1)
        assert await _redeliver(service, hook.id) == 2
        await _all_delivered(service, hook.id, 3)
        assert receiver.paths[-3:] == ["third", "first", "second"]
        assert [request.id for request in receiver.requests[-2:]] == [lost[1].message_id, lost[0].message_id]
        assert await _redeliver(service, hook.id) == 0
        assert await _redeliver(service, hook.id, lost[0].id) == 1
        await until(lambda: receiver.paths[-3:] == ["first", "second", "second"], "the second once more")
        with refused(NotFound, Reason.DELIVERY_NOT_FOUND):
            await _redeliver(service, hook.id, 10**6)


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "2852039166"]
)
async def test_metadata_is_refused(service: RunningLocks, team: Team, host: str) -> None:
    """A hook to the metadata of a cloud cannot be added, however the address is written, and whatever it allows."""
    for private in (False, True):
        with refused(InvalidArgument, Reason.INVALID_FIELD, "url: "):
            await _add(service, team.repository, f"https://{host}/latest", private=private)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://127.0.0.1/", "private"),
        ("https://localhost/", "private"),
        ("https://10.1.2.3/", "private"),
        ("http://93.184.215.14/", "https"),
        ("ftp://93.184.215.14/", "https"),
        ("https://user:word@93.184.215.14/", "credentials"),
        ("https://93.184.215.14/#fragment", "fragment"),
        ("https://93.184.215.14:99999/", "URL"),
        ("https:///path", "host"),
        ("https://no-such-host.invalid/", "resolved"),
        ("https://ä.example/", "ASCII"),
        ("https://93.184.215.14/" + 2_000 * "a", "characters"),
        ("", "https"),
    ],
)
async def test_urls_that_are_refused(service: RunningLocks, team: Team, url: str, told: str) -> None:
    """The message names the field and says what was expected."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, "url: ") as caught:
        await _add(service, team.repository, url, private=False)
    assert told in caught.value.message


async def test_each_attempt_asks_whether_the_hook_allows_private_addresses(
    service: RunningLocks, team: Team, receiver: Receiver
) -> None:
    """As tests/service/locks/test_webhook_sender.py says; the delivery tells why nothing was sent."""
    hook = (await _add(service, team.repository, receiver.url.replace("http", "https", 1))).hook
    await service.execute("UPDATE hooks SET allows_private = false WHERE id = :id", id=hook.id)
    await service.create(team.repository_id, team.alice, "a.psd")

    async def is_told() -> bool:
        return any("private" in found.problem for found in await _deliveries(service, hook.id))

    await until(is_told, "the address is refused")
    assert receiver.requests == []


async def test_events_that_a_hook_does_not_want(service: RunningLocks, team: Team, receiver: Receiver) -> None:
    """A hook gets its types, of its repository; one of an unknown type is refused, and the message lists the types."""
    hook = (await _add(service, team.repository, receiver.url, events=("lock.released", "object.*"))).hook
    other = await service.add_repository(f"{team.repository}/other")
    for repository in (team.repository_id, other):
        lock = await service.create(repository, team.alice, "a.psd")
        await service.delete(repository, team.alice, lock.id)
    await _all_delivered(service, hook.id, 1)
    assert [request.json["type"] for request in receiver.requests] == ["lock.released"]
    assert [found.repository for found in await _deliveries(service, hook.id)] == [team.repository]
    for unknown in ((), ("lock.*", "lock.lost"), ("*",), ("lock.%",)):
        with refused(InvalidArgument, Reason.INVALID_FIELD) as caught:
            await _add(service, team.repository, receiver.url, events=unknown)
        types = (
            "lock.created, lock.released, lock.stolen, object.removed, quota.warned, quota.exceeded, lock.*, object.*"
        )
        assert types in caught.value.message


async def test_hooks_are_listed_and_removed(service: RunningLocks, team: Team, receiver: Receiver) -> None:
    """A list has the hooks that hear of a repository, and no secret; what is removed is called no more."""
    added = await _add(service, team.repository, receiver.url, form=admin.HOOK_FORMAT_SLACK)
    everywhere = await _add(service, "", "https://93.184.215.14/", events=("object.removed",), private=False)
    other = f"{team.repository}/other"
    await service.add_repository(other)

    async def hooks_of(repository: str) -> list[admin.Hook]:
        request = admin.ListHooksRequest(repository=repository)
        return list((await service.admin_peer.call(service.admin.ListHooks, request)).hooks)

    assert await hooks_of(team.repository) == [added.hook, everywhere.hook]
    assert await hooks_of(other) == [everywhere.hook]
    assert added.secret not in str(await hooks_of(""))
    assert (added.hook.repository, everywhere.hook.repository) == (team.repository, "")
    assert list(added.hook.events) == list(_EVENTS)
    for hook in (added.hook, everywhere.hook):
        await service.admin_peer.call(service.admin.DeleteHook, admin.DeleteHookRequest(id=hook.id))
        for repeated in (
            service.admin_peer.call(service.admin.DeleteHook, admin.DeleteHookRequest(id=hook.id)),
            _deliveries(service, hook.id),
            _redeliver(service, hook.id),
        ):
            with refused(NotFound, Reason.HOOK_NOT_FOUND):
                await repeated
    assert await hooks_of(team.repository) == []
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await _add(service, f"{team.repository}/none", receiver.url)


async def test_deliveries_in_pages(service: RunningLocks, team: Team, receiver: Receiver) -> None:
    """The latest is first, and no page has one of another."""
    hook = (await _add(service, team.repository, receiver.url)).hook
    for number in range(5):
        await service.create(team.repository_id, team.alice, f"{number}")
    await _all_delivered(service, hook.id, 5)
    seen: list[int] = []
    request = admin.ListHookDeliveriesRequest(hook_id=hook.id, limit=2)
    while True:
        page = await service.admin_peer.call(service.admin.ListHookDeliveries, request)
        seen += [found.id for found in page.deliveries]
        if not page.next_cursor:
            break
        request.cursor = page.next_cursor
    assert seen == [found.id for found in await _deliveries(service, hook.id)]
    assert seen == sorted(seen, reverse=True)


async def test_lines_for_chats(service: RunningLocks, team: Team, receiver: Receiver) -> None:
    """Slack and Discord get one line, as tests/unit/locks/webhooks/test_formats.py has it."""
    async with running_receiver() as discord:
        hooks = [
            (await _add(service, team.repository, receiver.url, form=admin.HOOK_FORMAT_SLACK)).hook.id,
            (await _add(service, team.repository, discord.url, form=admin.HOOK_FORMAT_DISCORD)).hook.id,
        ]
        await service.create(team.repository_id, team.alice, "a.psd")
        for hook_id in hooks:
            await _all_delivered(service, hook_id, 1)
        [to_slack], [to_discord] = receiver.requests, discord.requests
    line = f"`{team.alice_name}` locked `a.psd` in `{team.repository}`"
    assert (to_slack.json["text"], to_discord.json["content"]) == (line, line)


async def test_the_locks_of_a_removed_repository(postgres: TestPostgres, receiver: Receiver, tmp_path: Path) -> None:
    """A hook of all repositories hears of their release, with the name of the repository; its own hooks are gone."""
    async with (
        running_storage(await postgres.create_database(), tmp_path) as storage,
        running_locks(
            await postgres.create_database(),
            tmp_path,
            storage_address=storage.address,
            limits={"repository_bin_days": 0},
        ) as service,
    ):
        user, repository = await service.add_user("alice"), await service.add_repository("film")
        own = (await _add(service, "film", receiver.url, events=("lock.released",))).hook
        hook = (await _add(service, "", receiver.url)).hook
        await service.create(repository, user, "a.psd")
        oid = await storage.write(repository, b"to be removed")
        remove = admin.RemoveObjectRequest(repository="film", oid=oid, reason="licence")
        await service.admin_peer.call(service.admin.RemoveObject, remove)
        await service.delete_repository("film", force=True)
        await _all_delivered(service, hook.id, 3)
        with refused(NotFound, Reason.HOOK_NOT_FOUND):
            await _deliveries(service, own.id)
    created, removed, released = [request.json for request in receiver.requests]
    assert [created["type"], released["type"]] == ["lock.created", "lock.released"]
    assert released["data"]["repository"] == {"id": repository, "name": "film"}
    assert released["data"]["by"] == {"name": "admin"}
    assert released["data"]["forced"] is True
    assert removed["timestamp"].endswith("Z")
    assert (removed["type"], removed["data"]) == (
        "object.removed",
        {
            "repository": {"id": repository, "name": "film"},
            "object": {"oid": oid, "size": 13},
            "by": {"name": "admin"},
            "reason": "licence",
        },
    )


async def test_old_deliveries_are_deleted(service: RunningLocks, team: Team, receiver: Receiver) -> None:
    """Those that have ended and are older than they are kept; younger and pending ones stay."""
    hook = (await _add(service, team.repository, receiver.url)).hook
    for number in range(4):
        await service.create(team.repository_id, team.alice, f"{number}")
    await _all_delivered(service, hook.id, 4)
    newest, pending, *old = [found.id for found in await _deliveries(service, hook.id)]
    receiver.may_answer.clear()
    await _redeliver(service, hook.id, pending)
    await until(lambda: len(receiver.requests) == 5, "the attempt of the pending one")
    await service.execute(
        "UPDATE hook_deliveries SET created_at = created_at - interval '31 days' WHERE hook_id = :hook AND id <> :id",
        hook=hook.id,
        id=newest,
    )
    async with service.open_database() as database:
        assert await database.run(lambda connection: prune(connection, timedelta(days=30)))
        assert not await database.run(lambda connection: prune(connection, timedelta(days=30)))
    assert len(old) == 2
    assert [found.id for found in await _deliveries(service, hook.id)] == [newest, pending]
    receiver.may_answer.set()
    await _all_delivered(service, hook.id, 2)
