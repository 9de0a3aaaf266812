"""What the calls of the service share."""

import asyncio
from dataclasses import dataclass, field

from services.database.transactions import Database
from services.storage.backend import Backend
from services.storage.object_locks import ObjectLocks
from services.storage.room import Room
from services.storage.traffic import TrafficMeter


@dataclass(frozen=True)
class Store:
    """The index, the bytes, and what keeps the two in step."""

    database: Database
    backend: Backend
    room: Room
    traffic: TrafficMeter
    idle_seconds: float
    locks: ObjectLocks = field(default_factory=ObjectLocks)
    sweep_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where bytes may have been left that no repository holds."""
