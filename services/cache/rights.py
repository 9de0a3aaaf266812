"""Memory of the upstream's answers: which caller may read which object of which repository."""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from services.cache import metrics

_MAX_RIGHTS = 500_000
# All who show no credentials to a repository are one caller, and shall leave room for the others.
_MAX_OF_CALLER = _MAX_RIGHTS // 4
_MAX_REFS = 8
_REF_BYTES = 8


@dataclass(frozen=True)
class Caller:
    """The credentials of a request to one repository, as a keyed hash, and the ref that it names."""

    key: bytes
    ref: bytes


class _Held:
    """The rights of one caller: for each object, the refs under which it was granted, and when; the newest last."""

    def __init__(self) -> None:
        self.count = 0
        self._said: dict[bytes, tuple[tuple[bytes, float], ...]] = {}

    def note(self, oid: bytes, said: tuple[bytes, float]) -> None:
        before = self._said.pop(oid, ())
        # At the end, so that the oldest object comes first.
        self._said[oid] = now = (*(other for other in before if other[0] != said[0]), said)[-_MAX_REFS:]
        self.count += len(now) - len(before)

    def said_at(self, oid: bytes, ref: bytes) -> float | None:
        return next((moment for name, moment in self._said.get(oid, ()) if name == ref), None)

    def forget(self, oid: bytes) -> None:
        self.count -= len(self._said.pop(oid, ()))

    def forget_oldest(self) -> None:
        self.forget(next(iter(self._said)))


class Rights:
    """The rights that the upstream has granted lately, at most `_MAX_RIGHTS` of them.

    No credential can be read from it, and a restart forgets all. The callers that were heard of the longest ago are
    forgotten first. One caller has at most a quarter of all rights, of which its oldest are forgotten first, and those
    to an object by its latest `_MAX_REFS` refs.
    """

    def __init__(self, max_rights: int = _MAX_RIGHTS, max_of_caller: int = _MAX_OF_CALLER) -> None:
        self._secret = os.urandom(32)
        self._max_rights = max_rights
        self._max_of_caller = min(max_of_caller, max_rights)
        self._callers: dict[bytes, _Held] = {}
        self._count = 0

    def caller(self, authorization: Sequence[str], base: str, ref: str, query: bytes = b"") -> Caller:
        """Return the caller with these Authorization headers and this query, which may have a credential, too.

        Without any, all of a repository are one caller.
        """
        hashed = hashlib.blake2b(key=self._secret, digest_size=16)
        for part in (base, query.decode("latin-1"), *authorization):
            encoded = part.encode(errors="surrogatepass")
            hashed.update(len(encoded).to_bytes(8, "big") + encoded)
        named = ref.encode(errors="surrogatepass")
        return Caller(hashed.digest(), hashlib.blake2b(named, key=self._secret, digest_size=_REF_BYTES).digest())

    @property
    def is_any_remembered(self) -> bool:
        """True where anybody has a right."""
        return self._count > 0

    def note(self, caller: Caller, oids: Sequence[str]) -> None:
        """Remember from now on that the caller may read these objects."""
        if not oids:
            return
        held = self._callers.pop(caller.key, None) or _Held()
        self._callers[caller.key] = held
        self._count -= held.count
        said = (caller.ref, time.monotonic())
        for oid in oids:
            held.note(bytes.fromhex(oid), said)
        while held.count > self._max_of_caller:
            held.forget_oldest()
        self._count += held.count
        while self._count > self._max_rights:
            self._count -= self._callers.pop(next(iter(self._callers))).count
        metrics.RIGHTS.set(self._count)

    def seconds_since(self, caller: Caller, oid: str) -> float | None:
        """Return how long ago the upstream let the caller read an object; None where that is not remembered."""
        held = self._callers.get(caller.key)
        said_at = None if held is None else held.said_at(bytes.fromhex(oid), caller.ref)
        return None if said_at is None else time.monotonic() - said_at

    def forget(self, key: bytes, oid: str | None = None) -> None:
        """Forget all rights of a caller, or those to one object, by the key of `Caller`."""
        held = self._callers.get(key)
        if held is None:
            return
        self._count -= held.count
        if oid is not None:
            held.forget(bytes.fromhex(oid))
        if oid is None or not held.count:
            del self._callers[key]
        else:
            self._count += held.count
        metrics.RIGHTS.set(self._count)
