"""Composition root of the storage service."""

import asyncio
import datetime
from functools import partial

from towpath.storage.v1.store_service_pb2_grpc import add_StoreServiceServicer_to_server

from services.common.concurrency.periodic import refresh_periodically
from services.common.errors import Unavailable
from services.common.lifecycle import cancel_and_wait, run_after
from services.common.observability.logs import get_logger
from services.common.observability.metrics import served_metrics
from services.common.rpc.interceptors import FurtherSecret
from services.common.rpc.options import ADMIN_METADATA_KEY
from services.common.rpc.server import Server, methods_of
from services.database.engine import create_engine
from services.database.notifications import Notifications
from services.database.readiness import serve as serve_when_ready
from services.database.transactions import Database
from services.storage.api.storage_service import ADMIN_METHODS, SERVICE_NAME, add_storage_service
from services.storage.api.store_service import SERVICE_NAME as STORE_SERVICE_NAME
from services.storage.api.store_service import StoreService
from services.storage.backends.base import Backend
from services.storage.backends.opening import open_backend
from services.storage.capacity.limits import LimitCache
from services.storage.capacity.quota import TrafficQuota
from services.storage.capacity.reservations import QuotaReservations
from services.storage.capacity.space import SpaceManager
from services.storage.capacity.space_exchange import PeerReservations
from services.storage.capacity.usage_keeper import UsageKeeper
from services.storage.context import MAX_COLLECTIONS, StorageContext
from services.storage.direct.prober import Prober
from services.storage.index.lookups import ObjectLookups
from services.storage.index.registrar import UploadRegistrar
from services.storage.index.removal_feed import SOURCE as REMOVALS
from services.storage.index.removal_feed import RemovalFeed
from services.storage.index.schema import SCHEMA
from services.storage.index.uses import ReadRecorder
from services.storage.index.writer_lease import WriterLease
from services.storage.journal import Journals
from services.storage.objects.read import VERIFIED_SHARES
from services.storage.objects.usage import refresh_sizes
from services.storage.objects.write_small import SmallObjectWriter
from services.storage.replication.copier import Copier
from services.storage.scrubber import Scrubber
from services.storage.settings import StorageSettings
from services.storage.stores.registry import StoreRegistry
from services.storage.stores.transfer_modes import configured_directions
from services.storage.sweeper import Sweeper

_LAST_FLUSH_SECONDS = 2.0

_log = get_logger(__name__)


async def serve(settings: StorageSettings, stop: asyncio.Event, *, backend: Backend | None = None) -> None:
    """Serve until `stop` is set. The argument `backend` replaces the backend of the settings.

    Raises ValueError for a setting or a database that cannot be used.
    """
    backend = backend or await open_backend(settings.storage_url, settings.storage_public_endpoint)
    # Refuse at start a transfer setting that the backend cannot satisfy.
    configured_directions(settings.storage_transfer, backend.signing)
    server = Server(
        settings.storage_listen,
        secret=settings.service_secret,
        accepted=settings.service_secret_accepted,
        drain_seconds=settings.drain_seconds,
        tls=settings.read_tls(),
        services=[SERVICE_NAME, STORE_SERVICE_NAME],
        further=FurtherSecret(
            "the storage's administration",
            ADMIN_METADATA_KEY,
            frozenset([*methods_of([STORE_SERVICE_NAME]), *ADMIN_METHODS]),
            [settings.storage_admin_secret, settings.storage_admin_secret_accepted],
        ),
        waiting=(f"/{SERVICE_NAME}/WatchRemovals",),
    )
    database = Database(create_engine(settings.database, schema=SCHEMA.name, pool_size=settings.storage_pool_size))
    limits = LimitCache(
        database,
        quota=settings.storage_quota,
        user_quota=settings.storage_user_quota,
        bandwidth=settings.storage_bandwidth_limit,
    )
    quota, reservations = TrafficQuota(database, limits), QuotaReservations(database, limits)
    lock_engine = create_engine(settings.database, schema=SCHEMA.name, pool_size=MAX_COLLECTIONS)
    stores = StoreRegistry(database, backend, open_backend)
    journals = Journals(database, stores)
    space = SpaceManager(lambda: stores.primary.backend, settings.storage_reserve_bytes, PeerReservations(database))
    writer = WriterLease(database.engine)
    registrar, lookups = UploadRegistrar(database, writer.id), ObjectLookups(database)
    reads = ReadRecorder(database)
    notifications = Notifications(settings.database, REMOVALS)
    context = StorageContext(
        database=database,
        stores=stores,
        journals=journals,
        space=space,
        limits=limits,
        quota=quota,
        reservations=reservations,
        writer_lease=writer,
        registrar=registrar,
        lookups=lookups,
        reads=reads,
        removal_feed=RemovalFeed(notifications),
        idle_seconds=settings.storage_idle_seconds,
        bin_days=settings.storage_bin_days,
        partial_uploads_kept=datetime.timedelta(days=settings.storage_partial_upload_days),
        verified_share=VERIFIED_SHARES[settings.storage_verify_reads],
        shared_memory=settings.shared_memory_path,
        lock_engine=lock_engine,
    )

    async def check() -> None:
        await context.writer_lease.wait_acquired()
        await limits.known()
        await stores.known()
        await journals.recovered()
        await stores.primary.backend.check()

    async def first() -> None:
        async with asyncio.TaskGroup() as group:
            if settings.storage_metrics_listen is not None:
                group.create_task(refresh_periodically(partial(refresh_sizes, context)))
            group.create_task(Prober(context, settings.storage_transfer).run())

    whole_objects = SmallObjectWriter(context)
    add_storage_service(context, whole_objects, server.grpc)
    add_StoreServiceServicer_to_server(StoreService(context, settings.storage_url, settings.folders), server.grpc)
    reached, stop_serving = asyncio.Event(), asyncio.Event()
    runs = (
        limits.run,
        quota.run,
        reservations.run,
        UsageKeeper(database, limits).run,
        space.run,
        context.writer_lease.run,
        stores.run,
        journals.run,
        Sweeper(context).run,
        Copier(context).run,
        Scrubber(context, days=settings.storage_scrub_days, rate=settings.storage_scrub_rate).run,
        reads.run,
        notifications.keep_listening,
    )
    # Started only once Postgres is reached: an unsupported pooler ends the service, and before that each loop would
    # report the pooler as well.
    background = [asyncio.create_task(run_after(reached, run)) for run in runs]
    stopper = asyncio.create_task(_stop_in_order(stop, background, stop_serving))
    try:
        async with served_metrics(
            settings.storage_metrics_listen, settings.metrics_token, is_serving=lambda: server.is_serving
        ):
            await serve_when_ready(server, database, SCHEMA, stop_serving, check=check, first=first, reached=reached)
    finally:
        await cancel_and_wait(stopper, *background)
        await context.assemblies.close()
        await whole_objects.close()
        await journals.close()
        await reservations.close()
        await registrar.close()
        await lookups.close()
        await _flush(quota, reads)
        await lock_engine.dispose()
        await database.close()


async def _stop_in_order(
    stop: asyncio.Event, background: list[asyncio.Task[None]], stop_serving: asyncio.Event
) -> None:
    """Stop the background tasks before the connections that they use are closed."""
    await stop.wait()
    await cancel_and_wait(*background)
    stop_serving.set()


async def _flush(quota: TrafficQuota, reads: ReadRecorder) -> None:
    try:
        async with asyncio.timeout(_LAST_FLUSH_SECONDS):
            await quota.flush()
            await reads.flush()
    except (Unavailable, TimeoutError):
        _log.warning("the last second's traffic is not counted, as the database does not answer")
