"""The dependencies that the calls of the service share."""

import asyncio
import datetime
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from services.common.concurrency.shared_tasks import SharedTasks
from services.database.transactions import Database
from services.storage.capacity.limits import LimitCache
from services.storage.capacity.quota import TrafficQuota
from services.storage.capacity.reservations import QuotaReservations
from services.storage.capacity.space import SpaceManager
from services.storage.index.lookups import ObjectLookups
from services.storage.index.partial_uploads import PartialKey
from services.storage.index.registrar import UploadRegistrar
from services.storage.index.removal_feed import RemovalFeed
from services.storage.index.uses import ReadRecorder
from services.storage.index.writer_lease import WriterLease
from services.storage.journal import Journals
from services.storage.stores.recently_asked import RecentlyAsked
from services.storage.stores.registry import StoreRegistry

MAX_COLLECTIONS = 4
"""The most collections of garbage that go on at once in one process."""


@dataclass(frozen=True)
class StorageContext:
    """The index, the stores, and the components that keep the two consistent."""

    database: Database
    stores: StoreRegistry
    journals: Journals
    space: SpaceManager
    limits: LimitCache
    quota: TrafficQuota
    reservations: QuotaReservations
    writer_lease: WriterLease
    registrar: UploadRegistrar
    lookups: ObjectLookups
    reads: ReadRecorder
    removal_feed: RemovalFeed
    idle_seconds: float
    bin_days: float
    """The time that the bytes of removed objects are kept."""
    partial_uploads_kept: datetime.timedelta
    """The time for which partial uploads are kept after their last bytes; 0 if there shall be none."""
    verified_share: float
    """The share of whole reads that are verified."""
    shared_memory: Path | None
    """The folder in memory that callers on this host share; None if there is none."""
    lock_engine: AsyncEngine
    """Connections for advisory locks that are held for long, `MAX_COLLECTIONS` of them."""
    assemblies: SharedTasks[PartialKey] = field(default_factory=SharedTasks)
    """The partial uploads whose objects are being written from their parts."""
    collection_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_COLLECTIONS))
    sweep_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there may be blobs to which nothing refers any more."""
    recently_asked: RecentlyAsked = field(default_factory=RecentlyAsked)
    """The direct uploads for whose bytes a store was asked a moment ago."""
    copy_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a store may lack blobs that another store has."""
