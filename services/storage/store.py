"""What the calls of the service share."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from services.database.transactions import Database
from services.storage.journal import Journals
from services.storage.lookups import Lookups
from services.storage.registrar import Registrar
from services.storage.removals import Removals
from services.storage.room import Room
from services.storage.stores.places import Places
from services.storage.traffic import TrafficMeter
from services.storage.writer import Writer


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
