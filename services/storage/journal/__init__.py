"""The journal of a disk: small objects are durable by one append for many (docs/decisions/0031)."""

from services.storage.journal.journal import Journal
from services.storage.journal.journals import Journals

__all__ = ["Journal", "Journals"]
