"""The least servers that can be made of what Towpath is made of: `python -m benchmarks.speed.frameworks PORT STEP`.

Each step has one part more than the one before, and does nothing with it. `floor.py` asks them.
"""

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import uvicorn
import uvloop
from fastapi import FastAPI, Request, Response
from grpc_health.v1 import health_pb2, health_pb2_grpc

_BODY = bytes(600)
"""About as much as a batch of one is answered by."""

_RPC_SECONDS = 30.0


class Step(IntEnum):
    """The part of a small request's path that a server has."""

    UVICORN = 1
    FASTAPI = 2
    GRPC = 3
    POSTGRES = 4


async def _bare(_scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401 - what ASGI has
    """Read a request and answer it, by uvicorn alone."""
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_BODY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": _BODY})


Check = grpc.aio.UnaryUnaryMultiCallable[health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse]


def _application(check: Check | None) -> FastAPI:
    """Return what reads a request and answers it, and asks a peer between, if there is one."""
    application = FastAPI()

    @application.post("/")
    async def answer(request: Request) -> Response:
        await request.body()
        if check is not None:
            await check(health_pb2.HealthCheckRequest(), timeout=_RPC_SECONDS, wait_for_ready=True)
        return Response(_BODY, media_type="application/json")

    return application


class _Peer(health_pb2_grpc.HealthServicer):
    """Answers over gRPC, and asks Postgres for nothing before, if there is one."""

    def __init__(self, pool: asyncpg.Pool | None) -> None:
        self._pool = pool

    async def Check(
        self,
        _request: health_pb2.HealthCheckRequest,
        _context: Any,  # noqa: ANN401 - grpc leaves it untyped
    ) -> health_pb2.HealthCheckResponse:
        """Answer."""
        if self._pool is not None:
            await self._pool.fetchval("SELECT 1")
        return health_pb2.HealthCheckResponse()


async def _serve_peer(address: str, postgres: str | None) -> None:
    server = grpc.aio.server()
    pool = await asyncpg.create_pool(postgres) if postgres else None
    health_pb2_grpc.add_HealthServicer_to_server(_Peer(pool), server)
    server.add_insecure_port(address)
    await server.start()
    await server.wait_for_termination()


@asynccontextmanager
async def _peer(step: Step, postgres: str) -> AsyncIterator[Check | None]:
    """Run a peer, where the step has one."""
    if step < Step.GRPC:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{Path(folder) / 'peer'}"
        command = [sys.executable, "-m", "benchmarks.speed.frameworks", "0", str(int(step)), "--peer", address]
        process = await asyncio.create_subprocess_exec(*command, "--postgres", postgres, stdin=subprocess.DEVNULL)
        try:
            async with grpc.aio.insecure_channel(address) as channel:
                yield channel.unary_unary(
                    "/grpc.health.v1.Health/Check",
                    request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                    response_deserializer=health_pb2.HealthCheckResponse.FromString,
                )
        finally:
            process.terminate()
            await process.wait()


async def _serve(port: int, step: Step, postgres: str) -> None:
    async with _peer(step, postgres) as check:
        application = _bare if step is Step.UVICORN else _application(check)
        config = uvicorn.Config(application, port=port, access_log=False, log_config=None, lifespan="off", ws="none")
        await uvicorn.Server(config).serve()


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("step", type=lambda number: Step(int(number)))
    parser.add_argument("--postgres", default="", help="the URL of a database, for the last step")
    parser.add_argument("--peer", help="be the peer, at this address")
    asked = parser.parse_args()
    if asked.peer:
        uvloop.run(_serve_peer(asked.peer, asked.postgres if asked.step is Step.POSTGRES else None))
    else:
        # uvicorn sends itself again what it was sent: by default nobody would stop the peer.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        uvloop.run(_serve(asked.port, asked.step, asked.postgres))


if __name__ == "__main__":
    main()
