"""Who of this process may publish or delete the bytes of an oid."""

import asyncio
from weakref import WeakValueDictionary


class ObjectLocks:
    """One lock for each oid that is in use.

    Between processes the database's lock on the oid decides; it ends with its connection, though, while a thread of
    this process may still be at work on the file. And those who wait here hold no connection.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, oid: str) -> asyncio.Lock:
        """Return the lock of an oid, for `async with`."""
        return self._locks.setdefault(oid, asyncio.Lock())
