"""The rows of the table, and what Towpath is to reach in them."""

from dataclasses import dataclass

from benchmarks.speed.servers import RELAYED, TOWPATH

_OTHER, _LFSX, _GIFTLESS, _NGINX, _DISK = "lfs-test-server", "lfsx", "giftless", "nginx", "disk"
REQUESTS, OBJECTS, MEGABYTES, SECONDS = "req/s", "objects/s", "MB/s", "s"


@dataclass(frozen=True)
class Goal:
    """The least speed of a server, as a multiple of another server's speed or of its own in another row."""

    at_least: float
    than: str
    row: str | None = None
    """Of the figure that is compared with; None for the same row."""
    of: str = TOWPATH


@dataclass(frozen=True)
class Row:
    """A thing that is measured."""

    key: str
    title: str
    unit: str
    goals: tuple[Goal, ...] = ()
    at_most: float | None = None
    """The bound below which the figure itself has to stay."""

    @property
    def is_time(self) -> bool:
        """True if less is better."""
        return self.unit == SECONDS


@dataclass(frozen=True)
class Group:
    """Rows that are shown together; `key` names their chart."""

    key: str
    title: str
    rows: tuple[Row, ...]


def _locks(level: int, *, goals: dict[str, tuple[Goal, ...]]) -> list[Row]:
    titles = {
        "create": "lock a path",
        "list": "list 100 locks",
        "verify": "verify 100 locks",
        "by_path": "look up a path",
    }
    return [
        Row(f"lock_{what}_{level}", f"{title}, {level:,} stand", REQUESTS, goals.get(what, ()))
        for what, title in titles.items()
        if level > 100 or what != "create"
    ]


def _found() -> list[Row]:
    titles = {
        "any": "any page",
        "folder": "of a folder",
        "owner": "of an owner",
        "folder_owner": "of an owner in a folder",
    }
    as_any = (Goal(0.85, TOWPATH, "lock_page_any"),)
    return [
        Row(f"lock_page_{what}", f"list 100 locks of 100,000, {title}", REQUESTS, () if what == "any" else as_any)
        for what, title in titles.items()
    ]


def _as_at_100(what: str) -> tuple[Goal, ...]:
    # Others cannot have as many: theirs with 3,000 is what is compared with.
    few = Goal(0.85, TOWPATH, f"lock_{what}_100")
    return (few,) if what == "by_path" else (Goal(3.0, _OTHER, f"lock_{what}_3000"), few)


GROUPS = (
    Group(
        "requests",
        "Small requests, over 16 connections",
        (
            Row(
                "batch_download_100",
                "batch of 100 downloads",
                REQUESTS,
                (Goal(1.2, _OTHER), Goal(4.0, _GIFTLESS)),
            ),
            Row(
                "batch_upload_100",
                "batch of 100 uploads, all new",
                REQUESTS,
                (Goal(20.0, _OTHER), Goal(4.0, _GIFTLESS)),
            ),
            Row("batch_download_1", "batch of one download", REQUESTS, (Goal(0.5, _OTHER),)),
            Row("get_64k", "GET of 64 KiB", OBJECTS, (Goal(0.8, _OTHER), Goal(2.0, _LFSX), Goal(4.0, _GIFTLESS))),
            Row("put_64k", "PUT of 64 KiB", OBJECTS, (Goal(0.35, _OTHER), Goal(0.65, _LFSX), Goal(0.8, _GIFTLESS))),
        ),
    ),
    Group(
        "transfers",
        "Big transfers",
        (
            Row(
                "get_1g",
                "GET of 1 GiB, one stream",
                MEGABYTES,
                (Goal(0.85, _NGINX), Goal(0.6, _OTHER, of=RELAYED)),
            ),
            Row("get_1g_4", "GET of 1 GiB, four streams", MEGABYTES, (Goal(0.95, _NGINX),)),
            Row("put_1g", "PUT of 1 GiB", MEGABYTES, (Goal(1.0, _OTHER), Goal(0.85, _DISK))),
            Row("get_64m_16", "GET of 16 × 64 MiB at once", MEGABYTES),
            Row("put_64m_16", "PUT of 16 × 64 MiB at once", MEGABYTES),
        ),
    ),
    Group(
        "locks",
        "Locks, over 16 connections",
        (
            Row("lock_create_0", "lock a path, none stands", REQUESTS),
            *_locks(100, goals={}),
            *_locks(3000, goals={"create": (Goal(3.0, _OTHER),)}),
            *_locks(10_000, goals={}),
            *_locks(
                100_000,
                goals={
                    "create": (Goal(0.85, TOWPATH, "lock_create_0"),),
                    **{what: _as_at_100(what) for what in ("list", "verify", "by_path")},
                },
            ),
            *_found(),
        ),
    ),
    Group(
        "index",
        "A batch of 100 uploads of what is held, by what the index holds",
        (
            Row("index_1000", "1,000 objects in the index", REQUESTS),
            Row("index_1000000", "1,000,000 objects in the index", REQUESTS, (Goal(0.85, TOWPATH, "index_1000"),)),
        ),
    ),
    Group(
        "client",
        "The real git-lfs",
        (
            Row("push_64k", "push of 2,000 × 64 KiB", SECONDS, (Goal(0.5, _OTHER),)),
            Row("clone_64k", "clone of 2,000 × 64 KiB", SECONDS, (Goal(0.9, _OTHER),)),
            Row("push_1g", "push of 4 × 1 GiB", SECONDS, (Goal(1.0, _OTHER),)),
            Row("clone_1g", "clone of 4 × 1 GiB", SECONDS, (Goal(1.0, _OTHER),)),
        ),
    ),
    Group(
        "start",
        "Start",
        (Row("start", "`towpath up` on existing data, to the ready line", SECONDS, at_most=3.0),),
    ),
)

ROWS = {row.key: row for group in GROUPS for row in group.rows}

MAX_MEMORY_MIB = 400.0
"""Mebibytes of all processes of Towpath, Postgres aside, at the peak of every load."""
