"""The refs for which users have asked for objects, for clients that do not send an object's `id` back.

git-lfs 3.3 is such a client, and brings an object on another connection than it asked on.
"""

from collections import OrderedDict

_MAX_OBJECTS = 50_000


class AskedRefs:
    """The last ref for each user, repository and object; the oldest are forgotten."""

    def __init__(self, max_objects: int = _MAX_OBJECTS) -> None:
        self._max_objects = max_objects
        self._refs: OrderedDict[tuple[str, str, str], str] = OrderedDict()

    def record(self, user_name: str, repository: str, oid: str, ref: str) -> None:
        """Record that a user asks for an object of a ref."""
        key = (user_name, repository, oid)
        self._refs[key] = ref
        self._refs.move_to_end(key)
        if len(self._refs) > self._max_objects:
            self._refs.popitem(last=False)

    def find(self, user_name: str, repository: str, oid: str) -> str:
        """Return the ref; empty if none is known."""
        return self._refs.get((user_name, repository, oid), "")
