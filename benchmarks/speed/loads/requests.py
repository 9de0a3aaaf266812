"""Batches, and transfers of small objects: many requests over few connections."""

import random
import secrets

from benchmarks.speed import client, wrk
from benchmarks.speed.blobs import Blob, read_into_cache
from benchmarks.speed.client import Request
from benchmarks.speed.turn import Turn

HUNDRED = 100
_WARM_SECONDS = 1
# So many that nothing is asked for twice within some seconds.
_REPOSITORIES = 200
_DOWNLOADED = 40
_MOST_REQUESTS = 40_000


def prepare(turn: Turn) -> None:
    """Let the server hold small objects."""
    turn.server.hold(turn.site, turn.data, _held(turn))


def prepare_index(turn: Turn, *, level: int) -> None:
    """Let it hold small objects, and so many in all."""
    prepare(turn)
    turn.server.index(turn.site, turn.data, max(0, turn.scale.level(level) - turn.scale.held))


def _held(turn: Turn) -> list[Blob]:
    return turn.material.small[: turn.scale.held]


def batches(turn: Turn) -> None:
    """Ask for the actions of objects that are held, and of new ones."""
    batch(turn, row="batch_download_100")
    batch(turn, row="batch_download_1", objects=1)
    if "batch_upload_100" in turn.rows and not turn.asks_again:
        new = new_batch(turn)
        wrk.numbered(turn.site, new, seconds=_WARM_SECONDS, first=2**31)
        turn.tell_rate("batch_upload_100", wrk.numbered(turn.site, new, seconds=turn.scale.seconds, first=0))


def batch(turn: Turn, *, row: str, objects: int = HUNDRED) -> None:
    """Ask for the actions of objects that are held, so many in a batch, other ones each time."""
    if row in turn.rows:
        requests = held_batches(turn, objects)
        wrk.in_turn(turn.site, requests[-len(requests) // 10 :], seconds=_WARM_SECONDS)
        turn.tell_rate(row, wrk.in_turn(turn.site, requests, seconds=turn.scale.seconds))


def announced(turn: Turn, *, row: str) -> None:
    """Announce objects for upload that are held: whoever pushes is told what the index says, and not what it said."""
    requests = [client.batch(turn.site, "upload", each) for each in _chosen(turn, HUNDRED, most=50)]
    [entry, *_] = client.ask(requests[0]).json()["objects"]
    assert "actions" not in entry, f"{entry['oid']} is not held"
    wrk.in_turn(turn.site, requests, seconds=_WARM_SECONDS)
    turn.tell_rate(row, wrk.in_turn(turn.site, requests, seconds=turn.scale.seconds))


def held_batches(turn: Turn, objects: int) -> list[Request]:
    """Return batches of so many objects that the server holds."""
    sites = turn.sites(_REPOSITORIES)
    chosen = _chosen(turn, objects, most=_MOST_REQUESTS // len(sites))
    # Fails where an object has no action.
    client.actions(sites[-1], "download", chosen[-1])
    return [client.batch(site, "download", each) for each in chosen for site in sites]


def _chosen(turn: Turn, objects: int, *, most: int) -> list[list[Blob]]:
    held = _held(turn)
    random.Random(0).shuffle(held)  # noqa: S311 - the same ones for all servers, not secrets
    return [held[first : first + objects] for first in range(0, len(held), objects)][:most]


def new_batch(turn: Turn) -> Request:
    """Return a numbered batch of 100 objects that nobody has."""
    # The number is behind their first digits, which are as evenly spread as those of oids are.
    oids = [secrets.token_hex(4) + wrk.NUMBER + secrets.token_hex(24) for _ in range(HUNDRED)]
    return client.batch(turn.site, "upload", [Blob(oid, turn.scale.small, turn.material.folder) for oid in oids])


def get_small(turn: Turn) -> None:
    """Get objects of 64 KiB."""
    requests = [each for site in turn.sites(_DOWNLOADED) for each in turn.server.downloads(site, _held(turn))]
    read_into_cache([turn.data])
    wrk.in_turn(turn.site, requests[-len(requests) // 10 :], seconds=_WARM_SECONDS)
    rate = wrk.in_turn(turn.site, requests, seconds=turn.scale.seconds)
    assert rate.bytes >= (rate.requests - rate.refused) * turn.scale.small, "answers are shorter than the objects"
    turn.tell_rate("get_64k", rate)


def put_small(turn: Turn) -> None:
    """Upload new objects of 64 KiB."""
    uploads = small_uploads(turn)
    few = len(uploads) // 10
    wrk.once(turn.site, uploads[:few], seconds=_WARM_SECONDS, padding=turn.material.padding)
    rate = wrk.once(turn.site, uploads[few:], seconds=turn.scale.seconds, padding=turn.material.padding)
    turn.tell_rate("put_64k", rate)


def small_uploads(turn: Turn) -> list[Request]:
    """Return uploads of objects that end in the padding."""
    return [
        Request(action.method, action.url, action.headers, turn.material.beginning(number))
        for number, action in enumerate(turn.server.uploads(turn.site, turn.material.puts))
    ]
