"""The health probe of containers, as a process, against real servers."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trustme

from tests.support.certificates import certificate, certificate_files
from tests.support.replica import SERVICE, serving
from tests.support.waiting import STEP_SECONDS


async def probe(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int | None, str]:
    """Return the exit status and the line that it prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.common.health", *arguments),
        env={**os.environ, **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), STEP_SECONDS)
    lines = output.decode().splitlines()
    assert len(lines) == 1
    return process.returncode, lines[0]


async def test_serving_or_not(tmp_path: Path) -> None:
    """Only SERVING is healthy, for a service that there is."""
    for address in ("127.0.0.1:0", f"unix:{tmp_path}/s.sock"):
        async with serving(address) as (_, server):
            target = address.replace(":0", f":{server.port}")
            assert await probe(target, SERVICE) == (0, f"{target}: SERVING")
            status, line = await probe(target, "towpath.nothing.v1.Nothing")
            assert (status, "NOT_FOUND" in line) == (1, True)
            await server.set_serving(serving=False)
            assert await probe(target, SERVICE) == (1, f"{target}: NOT_SERVING")


async def test_nobody_there() -> None:
    """A probe must fail if nothing listens, and give the reason in one line."""
    status, line = await probe("127.0.0.1:1", SERVICE)
    assert (status, "UNAVAILABLE" in line) == (1, True)
    status, line = await probe("http://127.0.0.1:1/readyz")
    assert (status, "no answer" in line) == (1, True)


async def test_with_certificates(tmp_path: Path) -> None:
    """With the certificates of the settings or the secrets folder it is answered, without them it is not."""
    authority = trustme.CA()
    files = certificate_files(tmp_path, "storage", authority=authority)
    environment = {f"TOWPATH_{name.upper()}": str(path) for name, path in files.items()}
    (tmp_path / "secrets").mkdir()
    for name, path in files.items():
        assert path is not None
        (tmp_path / "secrets" / f"towpath_{name}").write_bytes(path.read_bytes())
    async with serving("127.0.0.1:0", tls=certificate(tmp_path, "storage", authority=authority)) as (_, server):
        address = f"127.0.0.1:{server.port}"
        for settings in (environment, {"TOWPATH_SECRETS_DIR": str(tmp_path / "secrets")}):
            assert await probe(address, SERVICE, "storage", environment=settings) == (0, f"{address}: SERVING")
        assert (await probe(address, SERVICE, environment=environment))[0] == 1
        assert (await probe(address, SERVICE))[0] == 1
    status, line = await probe(address, SERVICE, environment={"TOWPATH_TLS_KEY": "/none"})
    assert (status, "tls_certificate, tls_ca: needed" in line) == (1, True)


@pytest.mark.parametrize("status", [200, 503])
async def test_http(status: int) -> None:
    """200 is healthy, and no other status."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        found = status if request.startswith(b"GET /readyz ") else 404
        writer.write(f"HTTP/1.1 {found} X\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/readyz"
        assert await probe(url) == (0 if status == 200 else 1, f"{url}: {status}")


async def test_misuse() -> None:
    """Anything else is told how it is used."""
    for arguments in ([], ["127.0.0.1:1"], ["http://127.0.0.1:1/", "x", "y", "z"]):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.common.health", *arguments), stderr=asyncio.subprocess.PIPE
        )
        _, errors = await asyncio.wait_for(process.communicate(), STEP_SECONDS)
        assert (process.returncode, errors[:6]) == (2, b"usage:")


async def test_it_imports_little() -> None:
    """It runs every few seconds in every container: what services are made of is not imported."""
    program = "import sys; import services.common.health as h; h.probe_grpc('unix:/none', ''); print(*sys.modules)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), STEP_SECONDS)
    imported: Sequence[str] = output.decode().split()
    assert "grpc" in imported
    assert {"pydantic", "structlog", "sqlalchemy", "typer", "fastapi"}.isdisjoint(imported)
