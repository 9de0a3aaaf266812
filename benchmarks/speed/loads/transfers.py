"""Big transfers."""

from benchmarks.speed import curl
from benchmarks.speed.blobs import Blob, read_into_cache
from benchmarks.speed.turn import Turn

_STREAMS = 4
_TIMES = 3
"""The number of downloads in a row of a huge object: a single download is too short to tell servers apart."""


def prepare_large(turn: Turn) -> None:
    """Let the server hold a huge object."""
    _hold(turn, turn.material.large[:1])


def prepare_medium(turn: Turn) -> None:
    """Let it hold sixteen objects of 64 MiB."""
    _hold(turn, turn.material.medium)


def _hold(turn: Turn, objects: list[Blob]) -> None:
    turn.server.hold(turn.site, turn.data, objects)


def get_large(turn: Turn) -> None:
    """Get a huge object in one stream, and in four at once."""
    for row, streams in (("get_1g", 1), ("get_1g_4", _STREAMS)):
        if row in turn.rows:
            _get(turn, row, turn.material.large[:1] * streams, times=_TIMES)


def get_medium(turn: Turn) -> None:
    """Get sixteen objects at once."""
    _get(turn, "get_64m_16", turn.material.medium)


def _get(turn: Turn, row: str, objects: list[Blob], *, times: int = 1) -> None:
    requests = turn.server.downloads(turn.site, objects)
    read_into_cache([turn.data])
    turn.figures[row] = curl.get(requests, objects, times=times)


def put_large(turn: Turn) -> None:
    """Upload a huge object."""
    _put(turn, "put_1g", turn.material.large[:1])


def put_medium(turn: Turn) -> None:
    """Upload sixteen objects at once."""
    _put(turn, "put_64m_16", turn.material.medium)


def _put(turn: Turn, row: str, objects: list[Blob]) -> None:
    read_into_cache(blob.path for blob in objects)
    turn.figures[row] = turn.server.put(turn.site, turn.data, objects)
