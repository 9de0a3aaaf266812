"""Requests to an object store for each operation of Towpath, because stores charge by request.

`python -m benchmarks.store_requests` runs a SeaweedFS behind a proxy that counts, and prints a table.
"""

import asyncio
import os
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.observability import logs
from tests.support.direct import DirectStorage, direct_storage, some_bytes
from tests.support.postgres import running_postgres
from tests.support.seaweedfs import running_seaweedfs
from tests.support.store_proxy import StoreProxy, store_proxy

_MEBIBYTE = 1024 * 1024
_SWEEP_SECONDS = 3
_READINESS = re.compile(r"list-type=2.*objects(/|%2F)check")
_KINDS = ("PUT", "GET", "HEAD", "LIST", "DELETE")


def _kind(line: str) -> str:
    """Return what the first line of a request asks for, in the words of S3's price list."""
    method, target, _ = line.split(" ")
    if method == "GET" and re.search(r"[?&](list-type|uploads)\b", target):
        return "LIST"
    return {"POST": "PUT"}.get(method, method)


class Table:
    """Counts, and prints a row for each thing done."""

    def __init__(self, proxy: StoreProxy) -> None:
        self._proxy = proxy

    @asynccontextmanager
    async def row(self, what: str) -> AsyncIterator[None]:
        """Count what is asked within the block; readiness, which lists once in 5 s, is left out."""
        self._proxy.requests.clear()
        yield
        lines = [line for line in self._proxy.requests if not _READINESS.search(line)]
        counts = Counter(map(_kind, lines))
        print(f"| {what} | {' | '.join(str(counts[kind] or '') for kind in _KINDS)} |")


async def _relayed(table: Table, direct: DirectStorage) -> None:
    service = direct.service
    async with table.row("batch of 1,000 objects"):
        await service.stat(1, *((os.urandom(32).hex(), 0) for _ in range(1000)), intent=pb.INTENT_READ)
    small, large = some_bytes(_MEBIBYTE), some_bytes(23 * _MEBIBYTE)
    async with table.row("upload of 1 MiB, relayed"):
        oid = await service.write(1, small)
    async with table.row("upload of 23 MiB, relayed: 5 parts"):
        await service.write(1, large)
    async with table.row("download, relayed"):
        assert await service.read(1, oid) == small
    async with table.row("download from the middle, relayed"):
        assert await service.read(1, oid, offset=500_000) == small[500_000:]
    async with table.row("removal of an object"):
        await service.stub.DeleteObject(
            pb.DeleteObjectRequest(repository_id=1, oid=oid, reason="benchmark"), timeout=60
        )
        await asyncio.sleep(_SWEEP_SECONDS)


async def _direct(table: Table, direct: DirectStorage) -> None:
    async with table.row("the probe, at start and each hour"):
        await direct.wait_signing(pb.INTENT_READ)
        await direct.wait_signing(pb.INTENT_WRITE)
        await asyncio.sleep(_SWEEP_SECONDS)
    data = some_bytes(_MEBIBYTE)
    async with table.row("upload and its verify, direct"):
        oid = await direct.bring(1, data)
    async with table.row("download, direct"):
        [signed] = await direct.sign(1, (oid, len(data)), intent=pb.INTENT_READ)
        assert (await direct.http.get(signed.url)).content == data


async def _main() -> None:
    logs.configure("storage", level="ERROR", log_format=logs.LogFormat.TEXT)
    with tempfile.TemporaryDirectory(prefix="towpath-benchmark-") as folder:
        async with (
            running_seaweedfs(Path(folder)) as server,
            running_postgres() as postgres,
            store_proxy(server.port) as proxy,
        ):
            os.environ.update(server.environment, NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
            table = Table(proxy)
            print(f"| what | {' | '.join(_KINDS)} |\n|---|{'---|' * len(_KINDS)}")
            for transfer in ("relay", "direct"):
                where = Path(folder) / transfer
                where.mkdir()
                async with (
                    postgres.database() as url,
                    direct_storage(
                        server, url, where, endpoint=f"http://{proxy.address}", storage_transfer=transfer
                    ) as storage,
                ):
                    await (_relayed(table, storage) if transfer == "relay" else _direct(table, storage))
            # Python 3.11 has a traceback for each connection that the end of the proxy cuts off.
            asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)


if __name__ == "__main__":
    asyncio.run(_main())
