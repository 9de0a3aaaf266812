"""The loads: each asks a server for some rows of the table, in its turn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.speed.loads import locks, real_client, requests, transfers
from benchmarks.speed.servers import RELAYED, REPEATED, TOWPATH
from benchmarks.speed.turn import Turn

LOCK_LEVELS = (3000, 10_000, 100_000)
INDEX_LEVELS = (1000, 1_000_000)
START = "start"
_FEW_LOCKS = 100
_FORGES = (TOWPATH, "lfs-test-server", "lfsx", "rudolfs", "giftless")
_LOCKING = (TOWPATH, REPEATED, "lfs-test-server", "lfsx")

Do = Callable[[Turn], None]


def _nothing(_turn: Turn) -> None:
    """Ask for nothing."""


@dataclass(frozen=True)
class Load:
    """The requests for one turn of each server.

    `prepare` fills a new data folder, once for all loads that name the same `dataset`. If a load `writes`, each turn
    has a copy of that folder, so that all turns begin with the same data.
    """

    name: str
    rows: tuple[str, ...]
    servers: tuple[str, ...]
    dataset: str
    prepare: Do
    run: Do
    writes: bool = False


def _locks(level: int) -> Load:
    asked = ("list", "verify", "by_path") if level == _FEW_LOCKS else ("list", "verify", "by_path", "create")
    rows = tuple(f"lock_{what}_{level}" for what in asked)
    # Others take hours to get there.
    servers = _LOCKING if level <= min(LOCK_LEVELS) else (TOWPATH, REPEATED)
    name = f"locks_{level}"
    run = partial(locks.ask, level=level)
    return Load(name, rows, servers, name, partial(locks.prepare, level=level), run, writes=True)


def _index(level: int) -> Load:
    name = f"index_{level}"
    prepare = partial(requests.prepare_index, level=level)
    return Load(name, (name,), (TOWPATH,), name, prepare, partial(requests.announced, row=name))


LOADS = (
    Load(
        "batch",
        ("batch_download_100", "batch_download_1", "batch_upload_100"),
        (*_FORGES, REPEATED),
        "small",
        requests.prepare,
        requests.batches,
        # A batch of new objects leaves a note in some, and in Towpath more objects are indexed.
        writes=True,
    ),
    Load(
        "get_small",
        ("get_64k",),
        (*_FORGES, REPEATED, "nginx"),
        "small",
        requests.prepare,
        requests.get_small,
        writes=True,
    ),
    Load("put_small", ("put_64k",), _FORGES, "empty", _nothing, requests.put_small, writes=True),
    Load(
        "get_large",
        ("get_1g", "get_1g_4"),
        (*_FORGES, RELAYED, "nginx"),
        "large",
        transfers.prepare_large,
        transfers.get_large,
    ),
    Load("put_large", ("put_1g",), (*_FORGES, "disk"), "empty", _nothing, transfers.put_large, writes=True),
    Load(
        "get_medium",
        ("get_64m_16",),
        (*_FORGES, "nginx"),
        "medium",
        transfers.prepare_medium,
        transfers.get_medium,
    ),
    Load("put_medium", ("put_64m_16",), (*_FORGES, "disk"), "empty", _nothing, transfers.put_medium, writes=True),
    Load(
        "locks_0",
        ("lock_create_0",),
        (TOWPATH, "lfs-test-server", "lfsx"),
        "empty",
        _nothing,
        partial(locks.create, level=0),
        writes=True,
    ),
    _locks(_FEW_LOCKS),
    *map(_locks, LOCK_LEVELS),
    Load(
        "lock_pages",
        tuple(f"lock_page_{what}" for what in locks.FOUND),
        (TOWPATH,),
        "lock_pages",
        partial(locks.prepare_shared, level=max(LOCK_LEVELS)),
        locks.find,
        writes=True,
    ),
    *map(_index, INDEX_LEVELS),
    Load("git_small", ("push_64k", "clone_64k"), _FORGES, "empty", _nothing, real_client.small, writes=True),
    Load("git_large", ("push_1g", "clone_1g"), _FORGES, "empty", _nothing, real_client.large, writes=True),
    Load(
        START,
        (START,),
        (TOWPATH,),
        f"index_{max(INDEX_LEVELS)}",
        partial(requests.prepare_index, level=max(INDEX_LEVELS)),
        _nothing,
    ),
)
