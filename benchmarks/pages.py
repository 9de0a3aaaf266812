"""The time of pages of a list of 100,000 locks in the browser, as a ratio to the same page of the interface.

`python -m benchmarks.pages` fills the database of a `towpath up` with locks, asks for the first, a middle and the last
page of HTML and of JSON in turns, with and without filters, and prints the median of each and their ratio.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import httpx
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.database.engine import create_engine
from services.database.transactions import Database
from services.locks.models import SCHEMA
from tests.support.http import MEDIA_TYPE, Client
from tests.support.stack import Stack, running_stack
from tests.support.tabs import Tab

_PORTION = 20_000
_PAGE = 50
_GOAL_SECONDS = 0.3
_LOCKS = """
INSERT INTO locks (repository_id, path, path_hash, owner_id, locked_at, idempotency_key)
SELECT r.id, path, sha256(path::bytea), u.id, date_trunc('second', now()), md5('pages ' || n)
FROM (
    SELECT n, format('Content/Characters/Hero%s/Textures/Part%s/Skin%s.uasset', n % 97, n % 1013, n) AS path,
           CASE WHEN n % 10 = 0 THEN 'bob' ELSE 'alice' END AS owner
    FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n
) made JOIN users u ON u.name = owner JOIN repositories r ON r.name = 'demo/assets'
"""
_FILTERS = {"all": {}, "a folder": {"folder": "Content/Characters/Hero7/"}, "an owner": {"owner": "bob"}}
_INTERFACE = {"folder": "path_prefix", "owner": "owner"}


async def _fill(url: SecretStr, count: int) -> None:
    database = Database(create_engine(url, schema=SCHEMA.name, pool_size=1))
    try:
        for first in range(1, count + 1, _PORTION):

            async def work(connection: AsyncConnection, first: int = first) -> None:
                await connection.execute(text(_LOCKS), {"first": first, "last": min(first + _PORTION - 1, count)})

            await database.run(work)
    finally:
        await database.close()


async def _queries(client: Client, given: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return the queries of the first, a middle and the last page of a filter."""
    cursors = [""]
    asked = {_INTERFACE[name]: value for name, value in given.items()}
    while True:
        answer = (await client.locks(limit=_PAGE, cursor=cursors[-1], **asked)).raise_for_status().json()
        if not (cursor := answer.get("next_cursor")):
            break
        cursors.append(cursor)
    at = {"first": cursors[0], "middle": cursors[len(cursors) // 2], "last": cursors[-1]}
    return {name: {**given, **({"cursor": cursor} if cursor else {})} for name, cursor in at.items()}


async def _seconds(ask: Callable[[], Awaitable[httpx.Response]]) -> float:
    began = time.perf_counter()
    answer = await ask()
    took = time.perf_counter() - began
    assert answer.status_code == 200, answer.text
    return took


async def _measure(stack: Stack, rounds: int) -> list[tuple[str, str, float, float]]:
    """Return the filter, the page, and the median seconds of HTML and of JSON."""
    figures = []
    async with Tab(stack.origin) as tab, Client(stack.base_url, "alice", stack.tokens["alice"]) as client:
        await tab.sign_in(stack.tokens["alice"])
        client.http.headers["Accept"] = MEDIA_TYPE
        for title, given in _FILTERS.items():
            for place, query in (await _queries(client, given)).items():
                asked = {_INTERFACE.get(name, name): value for name, value in query.items()}
                path = f"/demo/assets/locks?{urlencode(query)}"

                async def html(path: str = path) -> httpx.Response:
                    return await tab.get(path)

                async def json(asked: dict[str, str] = asked) -> httpx.Response:
                    return await client.locks(limit=_PAGE, **asked)

                page = (await html()).text
                assert page.count('<th scope="row"') == len((await json()).json()["locks"]), place
                assert ('rel="next"' in page) == (place != "last"), place
                timed = [(await _seconds(html), await _seconds(json)) for _ in range(rounds)]
                figures.append((title, place, *(statistics.median(each) for each in zip(*timed, strict=True))))
    return figures


@contextmanager
def _filled(count: int) -> Iterator[Stack]:
    with running_stack() as stack:
        url = SecretStr(_database_url(stack))
        asyncio.run(_fill(url, count))
        yield stack


def _database_url(stack: Stack) -> str:
    return stack.service("locks").environ()["TOWPATH_LOCKS_DATABASE_URL"]


def main() -> None:
    """Measure and print; the exit status is 1 where a page misses the goal."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{Path(__file__).stem}", description=__doc__)
    parser.add_argument("--locks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    with _filled(arguments.locks) as stack:
        figures = asyncio.run(_measure(stack, arguments.rounds))
    print(f"{arguments.locks:,} locks, {_PAGE} on a page, median of {arguments.rounds}\n")
    print("| filter | page | HTML, ms | JSON, ms | ratio |\n|---|---|---:|---:|---:|")
    for title, place, html, json in figures:
        print(f"| {title} | {place} | {html * 1000:.1f} | {json * 1000:.1f} | {html / json:.1f} |")
    slowest = max(html for _, _, html, _ in figures)
    print(f"\nthe slowest page: {slowest * 1000:.0f} ms, of {_GOAL_SECONDS * 1000:.0f} ms")
    raise SystemExit(slowest > _GOAL_SECONDS)


if __name__ == "__main__":
    main()
