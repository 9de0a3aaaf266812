"""What the calls of the service share."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from services.database.transactions import Database
from services.storage.capacity.quota import TrafficMeter
from services.storage.capacity.space import Room
from services.storage.index.lookups import Lookups
from services.storage.index.registrar import Registrar
from services.storage.index.removal_feed import Removals
from services.storage.index.writer_lease import Writer
from services.storage.journal import Journals
from services.storage.stores.registry import Places


@dataclass(frozen=True)
class Store:
    """The index, the bytes, and what keeps the two in step."""

    database: Database
    places: Places
    journals: Journals
    room: Room
    traffic: TrafficMeter
    writer: Writer
    registrar: Registrar
    lookups: Lookups
    removals: Removals
    idle_seconds: float
    shared_memory: Path | None
    """A folder in memory that callers on this host share."""
    sweep_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where there may be bytes that no repository holds."""
    copy_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where a store may lack bytes that another has."""
