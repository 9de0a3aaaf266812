"""The journal of a disk: one append makes many small objects durable (docs/decisions/0031)."""

from services.storage.journal.journal import Journal
from services.storage.journal.journals import Journals

__all__ = ["Journal", "Journals"]
