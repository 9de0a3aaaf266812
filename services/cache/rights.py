"""Memory of the upstream's answers: which caller may read which object of which repository."""

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.cache import metrics

_MAX_RIGHTS = 500_000
_REF_BYTES = 8


@dataclass(frozen=True)
class Caller:
    """The credentials of a request to one repository, as a keyed hash, and the ref that it names."""

    key: bytes
    ref: bytes


class Rights:
    """The rights that the upstream has granted lately, at most `_MAX_RIGHTS` of them.

    No credential can be read from it, and a restart forgets all. The callers that were heard of the longest ago are
    forgotten first.
    """

    def __init__(self, max_rights: int = _MAX_RIGHTS) -> None:
        self._secret = os.urandom(32)
        self._max_rights = max_rights
        self._callers: dict[bytes, dict[bytes, float]] = {}
        self._count = 0

    def caller(self, authorization: Sequence[str], base: str, ref: str) -> Caller:
        """Return the caller with these Authorization headers; without any, all of a repository are one caller."""
        hashed = hashlib.blake2b(key=self._secret, digest_size=16)
        for part in (base, *authorization):
            encoded = part.encode(errors="surrogatepass")
            hashed.update(len(encoded).to_bytes(8, "big") + encoded)
        named = ref.encode(errors="surrogatepass")
        return Caller(hashed.digest(), hashlib.blake2b(named, key=self._secret, digest_size=_REF_BYTES).digest())

    @property
    def is_any_remembered(self) -> bool:
        """True where anybody has a right."""
        return self._count > 0

    def note(self, caller: Caller, oids: Iterable[str]) -> None:
        """Remember from now on that the caller may read these objects."""
        known = self._callers.pop(caller.key, {})
        self._callers[caller.key] = known
        now = time.monotonic()
        for oid in oids:
            name = bytes.fromhex(oid) + caller.ref
            # At the end, so that the oldest right comes first.
            self._count += known.pop(name, None) is None
            known[name] = now
        while self._count > self._max_rights:
            self._forget_oldest()
        metrics.RIGHTS.set(self._count)

    def seconds_since(self, caller: Caller, oid: str) -> float | None:
        """Return how long ago the upstream let the caller read an object; None where that is not remembered."""
        said_at = self._callers.get(caller.key, {}).get(bytes.fromhex(oid) + caller.ref)
        return None if said_at is None else time.monotonic() - said_at

    def forget(self, key: bytes, oid: str | None = None) -> None:
        """Forget all rights of a caller, or those to one object, by the key of `Caller`."""
        if oid is None:
            self._count -= len(self._callers.pop(key, {}))
        elif (known := self._callers.get(key)) is not None:
            beginning = bytes.fromhex(oid)
            for name in [name for name in known if name.startswith(beginning)]:
                del known[name]
                self._count -= 1
        metrics.RIGHTS.set(self._count)

    def _forget_oldest(self) -> None:
        oldest, known = next(iter(self._callers.items()))
        if len(self._callers) > 1:
            del self._callers[oldest]
            self._count -= len(known)
        else:
            del known[next(iter(known))]
            self._count -= 1
