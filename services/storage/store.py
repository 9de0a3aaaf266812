"""What the calls of the service share."""

import asyncio
from dataclasses import dataclass, field

from services.database.transactions import Database
from services.storage.backend import Backend
from services.storage.direct.transfer import Directions
from services.storage.room import Room
from services.storage.traffic import TrafficMeter
from services.storage.writer import Writer

_REPLACED_REMOTE_SECONDS = 3600.0


@dataclass(frozen=True)
class Store:
    """The index, the bytes, and what keeps the two in step."""

    database: Database
    backend: Backend
    room: Room
    traffic: TrafficMeter
    writer: Writer
    idle_seconds: float
    direct: Directions = field(default_factory=Directions)
    """What goes directly between clients and the backend, as the probe has seen that it works."""
    sweep_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where there may be bytes that no repository holds."""

    @property
    def replaced_seconds(self) -> float:
        """How long bytes stay that others have replaced: only a local file outlives its removal while it is read."""
        return _REPLACED_REMOTE_SECONDS if self.backend.is_remote else 0.0
