"""What a check finds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_TOLD = 1000


@dataclass(frozen=True)
class Finding:
    """An object that is not as it should be.

    `name` is what its bytes are called in the storage, and `repositories` are the names of those that hold it.
    """

    oid: str
    size: int
    problem: str
    name: str
    repositories: tuple[str, ...] = ()

    def record(self) -> Mapping[str, object]:
        """Return it as JSON has it."""
        record: dict[str, object] = {
            "oid": self.oid,
            "size": self.size,
            "problem": self.problem,
            "name": self.name,
        }
        return record | ({"repositories": list(self.repositories)} if self.repositories else {})


@dataclass
class Findings:
    """All that a check finds: counts of everything, and the first thousand of each kind by name."""

    hashed: bool
    objects: int = 0
    bytes: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("missing", "corrupt", "orphaned"), 0))
    told: dict[str, list[Finding]] = field(default_factory=dict)
    unclaimed: int = 0
    left_over: int = 0

    def add(self, kind: str, finding: Finding) -> None:
        """Add one: `missing` (absent), `corrupt` (of another size or hash) or `orphaned` (held by no repository)."""
        self.counts[kind] += 1
        told = self.told.setdefault(kind, [])
        if len(told) < _TOLD:
            told.append(finding)

    @property
    def damaged(self) -> int:
        """How many objects that repositories hold cannot be had."""
        return self.counts["missing"] + self.counts["corrupt"]

    def record(self) -> Mapping[str, object]:
        """Return them as JSON has them."""
        return {
            "objects": self.objects,
            "bytes": self.bytes,
            "hashed": self.hashed,
            **self.counts,
            "unclaimed": self.unclaimed,
            "left_over": self.left_over,
            "findings": [
                {"kind": kind, **finding.record()} for kind in self.counts for finding in self.told.get(kind, [])
            ],
        }
