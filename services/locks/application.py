"""Assembly of the lock service: its servicers, background tasks and shutdown."""

import asyncio

from towpath.access.v1 import access_service_pb2, access_service_pb2_grpc, admin_service_pb2, admin_service_pb2_grpc
from towpath.locks.v1 import lock_service_pb2, lock_service_pb2_grpc, push_service_pb2, push_service_pb2_grpc

from services.common.concurrency.periodic import refresh_periodically
from services.common.lifecycle import cancel_and_wait, run_after, running
from services.common.observability.metrics import served_metrics
from services.common.rpc.interceptors import FurtherSecret
from services.common.rpc.options import CHUNK_BYTES, SSH_METADATA_KEY
from services.common.rpc.server import Server
from services.database.engine import create_engine
from services.database.notifications import Notifications
from services.database.readiness import serve as serve_when_ready
from services.database.transactions import Database
from services.locks.access import revocation_feed
from services.locks.access.limited_groups import LimitedGroups
from services.locks.access.refusals import Refusals
from services.locks.access.request_rates import RequestRates
from services.locks.access.token_uses import TokenUses
from services.locks.api.access_service import AccessServicer
from services.locks.api.admin.service import AdminServicer
from services.locks.api.lock_service import LockServicer
from services.locks.api.push_service import PushServicer
from services.locks.api.token_callers import TokenCallers
from services.locks.audit.partitions import keep_partitions
from services.locks.audit.recorder import watch_transactions
from services.locks.events.feed import LockFeed
from services.locks.forges.authentication import ForgeAuthentication
from services.locks.forges.lookups import ForgeLookups
from services.locks.issuers.code_flow import CodeFlow
from services.locks.issuers.discovery import Discovery
from services.locks.issuers.key_sets import KeySets
from services.locks.issuers.redemption import Redemption
from services.locks.issuers.sign_in import SignIn
from services.locks.locking.pages import LockPages
from services.locks.locking.retention import keep_deleting_expired
from services.locks.metrics import refresh_repositories
from services.locks.models import SCHEMA
from services.locks.removals import keep_emptying_bin
from services.locks.settings import LocksSettings
from services.locks.storage_client import StorageClient
from services.locks.webhooks.deliveries import refresh_pending
from services.locks.webhooks.quota_events import keep_telling
from services.locks.webhooks.worker import Retries, Worker

LOCK_SERVICE: str = lock_service_pb2.DESCRIPTOR.services_by_name["LockService"].full_name
PUSH_SERVICE: str = push_service_pb2.DESCRIPTOR.services_by_name["PushService"].full_name
ACCESS_SERVICE: str = access_service_pb2.DESCRIPTOR.services_by_name["AccessService"].full_name
ADMIN_SERVICE: str = admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name

# A megabyte, with what is around it: of fields, which the calls bound, or of an object's bytes.
_MESSAGE_BYTES = CHUNK_BYTES + 256 * 1024


async def serve(settings: LocksSettings, stop: asyncio.Event, *, retries: Retries | None = None) -> None:
    """Serve the gRPC services of the lock service until `stop` is set, then drain and close everything.

    `retries` are the times of further attempts to deliver to webhooks. Raises ValueError for a setting or a database
    that cannot be used.
    """
    tls = settings.read_tls()
    engine = create_engine(settings.database, schema=SCHEMA.name, pool_size=settings.locks_pool_size)
    watch_transactions(engine)
    database = Database(engine)
    uses = TokenUses(database)
    server = Server(
        settings.locks_listen,
        secret=settings.service_secret,
        accepted=settings.service_secret_accepted,
        drain_seconds=settings.drain_seconds,
        tls=tls,
        services=(LOCK_SERVICE, PUSH_SERVICE, ACCESS_SERVICE, ADMIN_SERVICE),
        # Callers of these present the token of a user instead of the service secret.
        unguarded=(PUSH_SERVICE, ADMIN_SERVICE),
        further=FurtherSecret(
            "the SSH service",
            SSH_METADATA_KEY,
            frozenset([f"/{ACCESS_SERVICE}/IssueSessionToken"]),
            [settings.ssh_secret, settings.ssh_secret_accepted],
        ),
        inner=[TokenCallers(database, uses, [PUSH_SERVICE], administrators=[ADMIN_SERVICE])],
        message_bytes=_MESSAGE_BYTES,
        waiting=(
            f"/{ACCESS_SERVICE}/WatchAccess",
            f"/{LOCK_SERVICE}/WatchLocks",
            f"/{ADMIN_SERVICE}/WatchRepositoryLocks",
        ),
        frequent=(f"/{ACCESS_SERVICE}/TakeRate",),
    )
    changes = Notifications(settings.database, revocation_feed.SOURCE)
    refusals = Refusals(database)
    discovery = Discovery()
    keys = KeySets(discovery.read, stale_seconds=settings.issuer_stale_seconds)
    sign_in = SignIn(database, uses, keys, token_seconds=settings.sign_in_seconds)
    code_flow = CodeFlow(database, sign_in, keys, Redemption(discovery))
    storage = StorageClient(
        settings.storage_address, secret=settings.service_secret, admin_secret=settings.storage_admin_secret, tls=tls
    )
    pages = LockPages(database, settings)
    feed = LockFeed(database)
    lock_service_pb2_grpc.add_LockServiceServicer_to_server(LockServicer(database, settings, pages, feed), server.grpc)
    push_service_pb2_grpc.add_PushServiceServicer_to_server(PushServicer(database), server.grpc)
    lookups = ForgeLookups(database, settings)
    forges = ForgeAuthentication(database, settings, lookups)
    rates = RequestRates(database, default_limit=settings.requests_per_hour)
    access = AccessServicer(database, changes, uses, refusals, sign_in, code_flow, forges, storage, rates)
    access_service_pb2_grpc.add_AccessServiceServicer_to_server(access, server.grpc)
    admin = AdminServicer(database, uses, settings, storage, pages, feed, discovery)
    admin_service_pb2_grpc.add_AdminServiceServicer_to_server(admin, server.grpc)

    async def check() -> None:
        # Only Postgres is needed: AdminService alone calls the storage service, and reports if it cannot.
        return

    webhooks = Worker(database, retries=retries or Retries(), drain_seconds=settings.drain_seconds)
    delivering: list[asyncio.Task[None]] = []

    async def refresh() -> None:
        await refresh_repositories(database)
        await refresh_pending(database)

    async def first() -> None:
        delivering.append(asyncio.create_task(webhooks.run(stop)))
        async with (
            running(keep_partitions(database, settings.locks_audit_days)),
            running(forges.keep_cleaning()),
            running(keep_telling(database, storage)),
            running(LimitedGroups(database, storage).run()),
            running(rates.keep_cleaning()),
            running(keep_emptying_bin(database, storage)),
            running(keep_deleting_expired(database)) as deleting,
        ):
            if settings.locks_metrics_listen is not None:
                await refresh_periodically(refresh)
            await deleting

    async def last() -> None:
        # These need the database, which is closed next.
        await cancel_and_wait(writing, reading, recording)
        await asyncio.gather(*delivering)

    writing = asyncio.create_task(uses.keep_writing())
    recording = asyncio.create_task(refusals.keep_writing())
    listening = asyncio.create_task(changes.keep_listening())
    reading = asyncio.create_task(feed.keep_reading())
    # A watch has no end of its own, and would use up the time for which calls in flight are awaited.
    closing = asyncio.create_task(run_after(stop, feed.close))
    # The task ends by itself only with a permanent error.
    listening.add_done_callback(lambda _: stop.set())
    try:
        async with served_metrics(
            settings.locks_metrics_listen, settings.metrics_token, is_serving=lambda: server.is_serving
        ):
            await serve_when_ready(server, database, SCHEMA, stop, check=check, first=first, last=last)
    finally:
        await storage.close()
        await lookups.close()
        await keys.close()
        await cancel_and_wait(writing, recording, listening, reading, closing)
