"""What a check finds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_TOLD = 1000
_KINDS = ("missing", "corrupt", "healable", "orphaned")


@dataclass(frozen=True)
class Finding:
    """An object that is not as it should be.

    `name` is what its bytes are called in the storage, `repositories` are the names of those that hold it, and `store`
    is the name of the store that was looked at, where there are several.
    """

    oid: str
    size: int
    problem: str
    name: str
    repositories: tuple[str, ...] = ()
    store: str | None = None

    def record(self) -> Mapping[str, object]:
        """Return it as JSON has it."""
        record: dict[str, object] = {
            "oid": self.oid,
            "size": self.size,
            "problem": self.problem,
            "name": self.name,
        }
        if self.store is not None:
            record["store"] = self.store
        if self.repositories:
            record["repositories"] = list(self.repositories)
        return record


@dataclass
class Findings:
    """All that a check finds: counts of everything, and the first thousand of each kind by name.

    `healing` is how many of the healable ones the services were told to heal, and `wanted` for how many of the missing
    and corrupt ones they were told to ask clients again; None where they should not be told.
    """

    hashed: bool
    healing: int | None = None
    wanted: int | None = None
    objects: int = 0
    bytes: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    told: dict[str, list[Finding]] = field(default_factory=dict)
    unclaimed: int = 0
    left_over: int = 0

    def add(self, kind: str, finding: Finding) -> None:
        """Add one.

        It is `missing` (absent), `corrupt` (of another size or hash), `healable` (one of the two in this store, and
        as it should be in another) or `orphaned` (held by no repository).
        """
        self.counts[kind] += 1
        told = self.told.setdefault(kind, [])
        if len(told) < _TOLD:
            told.append(finding)

    @property
    def damaged(self) -> int:
        """How often an object that repositories hold is missing or corrupt, and no store has it."""
        return self.counts["missing"] + self.counts["corrupt"]

    def record(self) -> Mapping[str, object]:
        """Return them as JSON has them."""
        return {
            "objects": self.objects,
            "bytes": self.bytes,
            "hashed": self.hashed,
            **self.counts,
            **({} if self.healing is None else {"healing": self.healing}),
            **({} if self.wanted is None else {"wanted": self.wanted}),
            "unclaimed": self.unclaimed,
            "left_over": self.left_over,
            "findings": [
                {"kind": kind, **finding.record()} for kind in self.counts for finding in self.told.get(kind, [])
            ],
        }
