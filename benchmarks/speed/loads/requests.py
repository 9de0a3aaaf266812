"""Batches, and transfers of small objects: many requests over few connections."""

import random
import secrets
from collections.abc import Iterable

from benchmarks.speed import client, wrk
from benchmarks.speed.blobs import Blob, read_into_cache
from benchmarks.speed.client import Request
from benchmarks.speed.material import Material
from benchmarks.speed.turn import INDEXED, Turn

HUNDRED = 100
_WARM_SECONDS = 1
# So many that nothing is asked for twice within some seconds.
_DOWNLOADED = 40
_BATCHES = {1: INDEXED, HUNDRED: 5_000}


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
    requests = [client.batch(turn.site, "upload", each) for each in _portions(_held(turn), HUNDRED)]
    [entry, *_] = client.ask(requests[0]).json()["objects"]
    assert "actions" not in entry, f"{entry['oid']} is not held"
    wrk.in_turn(turn.site, requests, seconds=_WARM_SECONDS)
    turn.tell_rate(row, wrk.in_turn(turn.site, requests, seconds=turn.scale.seconds))


def held_batches(turn: Turn, objects: int) -> list[Request]:
    """Return batches of so many objects that the server holds, 1 or a hundred."""
    if turn.asks_anew:
        site, indexed = turn.indexed
        portions = _portions(indexed, objects, least=turn.scale.level(_BATCHES[objects]))
    else:
        site, portions = turn.site, _portions(_held(turn), objects)
    # Fails where an object has no action.
    client.actions(site, "download", portions[-1])
    return [client.batch(site, "download", each) for each in portions]


def _portions(objects: list[Blob], size: int, *, least: int = 1) -> list[list[Blob]]:
    """Return the objects in portions of a size, in another order each time until there are at least so many."""
    chance = random.Random(0)  # noqa: S311 - the same for all servers, no secret
    found: list[list[Blob]] = []
    while len(found) < least:
        chance.shuffle(objects)
        found += [objects[first : first + size] for first in range(0, len(objects), size)]
    return found


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
    return begun(turn.server.uploads(turn.site, turn.material.puts))


def begun(uploads: Iterable[Request]) -> list[Request]:
    """Return uploads of all `Material.puts` with the beginnings of their bodies."""
    return [
        Request(action.method, action.url, action.headers, Material.beginning(number))
        for number, action in enumerate(uploads)
    ]
