"""The findings of a check."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

_TOLD = 1000
_KINDS = ("missing", "corrupt", "healable", "orphaned")


@dataclass(frozen=True)
class Finding:
    """An object that is not as it should be.

    `name` is its blob name, `store` is the name of the checked store if there are several, and `repositories` are the
    names of the repositories that hold it.
    """

    oid: str
    size: int
    problem: str
    name: str
    store: str | None
    repositories: tuple[str, ...] = ()

    def record(self) -> Mapping[str, object]:
        """Return the finding in its JSON form."""
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}


@dataclass
class Findings:
    """The findings of a check: their counts, and the first thousand of each kind in detail.

    `healing` counts the healable findings that the check has marked to be healed, and `wanted` the missing and corrupt
    objects that it has marked to be requested from clients again; both are None for a check that does not heal.
    """

    hashed: bool
    healing: int | None = None
    wanted: int | None = None
    objects: int = 0
    bytes: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    reported: dict[str, list[Finding]] = field(default_factory=dict)
    unclaimed: int = 0
    abandoned: int = 0

    def add(self, kind: str, finding: Finding) -> None:
        """Add a finding.

        Its kind is `missing` (absent), `corrupt` (of another size or hash), `healable` (missing or corrupt in this
        store, and intact in another store) or `orphaned` (held by no repository).
        """
        self.counts[kind] += 1
        reported = self.reported.setdefault(kind, [])
        if len(reported) < _TOLD:
            reported.append(finding)

    @property
    def damaged(self) -> int:
        """The number of findings of held objects that are missing or corrupt, and intact in no store."""
        return self.counts["missing"] + self.counts["corrupt"]

    def record(self) -> Mapping[str, object]:
        """Return the findings in their JSON form."""
        return {
            "objects": self.objects,
            "bytes": self.bytes,
            "hashed": self.hashed,
            **self.counts,
            **({} if self.healing is None else {"healing": self.healing}),
            **({} if self.wanted is None else {"wanted": self.wanted}),
            "unclaimed": self.unclaimed,
            "left_over": self.abandoned,
            "findings": [
                {"kind": kind, **finding.record()} for kind in self.counts for finding in self.reported.get(kind, [])
            ],
        }
