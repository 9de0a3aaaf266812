"""The probe of containers, as compose.yaml starts it, against real servers."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from services.common.observability.metrics import served_metrics
from tests.support.ports import free_ports
from tests.support.waiting import STEP_SECONDS

ROOT = Path(__file__).parents[3]
PROBE = ROOT / "deploy" / "probe.sh"


async def probe(*arguments: str) -> tuple[int | None, str]:
    """Return the exit status of the probe and what it prints."""
    process = await asyncio.create_subprocess_exec(
        PROBE, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), STEP_SECONDS)
    return process.returncode, output.decode().strip()


@asynccontextmanager
async def answering(*lines: bytes) -> AsyncIterator[str]:
    """Answer on a port of loopback, which is yielded, each request for /readyz with these lines."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /readyz HTTP/1.0\r\n")
        for line in lines:
            writer.write(line)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield str(server.sockets[0].getsockname()[1])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", (0, "200")),
        (b"HTTP/1.0 503 Service Unavailable\r\n\r\n", (1, "503")),
        (b"", (1, "no answer")),
    ],
)
async def test_only_200_is_healthy(answer: bytes, expected: tuple[int, str]) -> None:
    """Whatever else is said, or nothing at all."""
    async with answering(answer) as port:
        assert await probe(port, "/readyz") == expected


async def test_nobody_there_and_misuse() -> None:
    """A probe must fail if nothing listens, and show its usage if it is called without arguments."""
    [port] = free_ports(1)
    assert (await probe(str(port), "/readyz"))[0] == 1
    assert (await probe())[0] == 2


async def test_a_grpc_service_is_asked_over_http() -> None:
    """Beside the metrics, by anybody and without a token; one whose event loop hangs does not serve."""
    serving = True
    [port] = free_ports(1)
    async with served_metrics(f"127.0.0.1:{port}", None, is_serving=lambda: serving):
        assert await probe(str(port), "/readyz") == (0, "200")
        serving = False
        assert await probe(str(port), "/readyz") == (1, "503")
        # It is not to be started again for that.
        assert await probe(str(port), "/healthz") == (0, "200")
        serving = True
        statuses: list[int] = []

        def ask() -> None:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=STEP_SECONDS) as http:
                statuses.extend(http.get(path).status_code for path in ("/readyz", "/healthz"))

        asking = threading.Thread(target=ask)
        asking.start()
        # The loop stands still until the answer is there.
        asking.join(STEP_SECONDS)
        assert statuses == [503, 503]
    async with served_metrics(f"127.0.0.1:{port}", None):
        assert (await probe(str(port), "/readyz"))[1] == "404"
        assert (await probe(str(port), "/healthz"))[1] == "200"


def test_the_stack_starts_no_python_to_ask() -> None:
    """A check that imports takes seconds on a busy machine, and so fails just then."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for name in ("storage", "locks", "facade"):
        assert services[name]["healthcheck"]["test"][:2] == ["CMD", "probe.sh"]
    assert "import" not in PROBE.read_text()
