"""The refs for which users have asked for objects, for clients that do not send an object's `id` back.

git-lfs 3.3 is such a client, and brings an object on another connection than it asked on.
"""

from collections import OrderedDict

_MAX_OBJECTS = 50_000
_SHARE_OF_ONE_USER = 4


class AskedRefs:
    """The last ref for each user, repository and object.

    A user has at most a quarter of them and loses the oldest; those of the user who asked least recently make room.
    """

    def __init__(self, max_objects: int = _MAX_OBJECTS) -> None:
        self._max_objects = max_objects
        self._count = 0
        self._users: OrderedDict[str, OrderedDict[tuple[str, str], str]] = OrderedDict()

    def record(self, user_name: str, repository: str, oid: str, ref: str) -> None:
        """Record that a user asks for an object of a ref."""
        own = self._users.setdefault(user_name, OrderedDict())
        self._users.move_to_end(user_name)
        key = (repository, oid)
        self._count += key not in own
        own[key] = ref
        own.move_to_end(key)
        if len(own) > max(1, self._max_objects // _SHARE_OF_ONE_USER):
            own.popitem(last=False)
            self._count -= 1
        elif self._count > self._max_objects:
            name, oldest = next(iter(self._users.items()))
            oldest.popitem(last=False)
            self._count -= 1
            if not oldest:
                del self._users[name]

    def find(self, user_name: str, repository: str, oid: str) -> str:
        """Return the ref; empty if none is known."""
        own = self._users.get(user_name)
        return own.get((repository, oid), "") if own is not None else ""
