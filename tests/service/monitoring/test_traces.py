"""Traces of the three services, as processes, sent to a real OTLP receiver."""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.common.observability.tracing import traced
from tests.support.collector import Collector, ReceivedSpan, running_collector
from tests.support.http import content, oid_of
from tests.support.postgres import TestPostgres
from tests.support.services import METRICS_TOKEN, REPOSITORY, SERVICE_SECRET, Services, running_services
from tests.support.storage import stored_path


@pytest.fixture(scope="module")
async def collector() -> AsyncIterator[Collector]:
    """Yield the collector that receives the spans."""
    async with running_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
async def traced_services(collector: Collector, postgres: TestPostgres) -> AsyncIterator[Services]:
    """The services, sending their spans to it."""
    with tempfile.TemporaryDirectory(prefix="towpath-test-") as folder:
        async with running_services(postgres, Path(folder), traces_endpoint=collector.endpoint) as services:
            yield services


def _of(spans: list[ReceivedSpan], service: str) -> list[ReceivedSpan]:
    return [span for span in spans if span.service == f"towpath-{service}"]


async def test_an_upload_is_one_trace(traced_services: Services, collector: Collector) -> None:
    """The facade's span, storage's below it, and below that one for each SQL statement, all with the request id."""
    data = content("traced", 5_000)
    async with traced_services.client("alice") as alice:
        action = await alice.offered("upload", data)
        alice.http.headers["X-Request-Id"] = "traced-upload"
        assert (await alice.put(action, data, len(data))).status_code == 200
    arrived = {"upload", "/towpath.storage.v1.StorageService/WriteWholeObject"}
    await collector.until(lambda: {span.name for span in collector.of_request("traced-upload")} >= arrived)
    spans = collector.of_request("traced-upload")
    (facade,) = _of(spans, "facade")
    assert (facade.name, facade.parent_id, facade.failed) == ("upload", "", False)
    assert facade.attributes["towpath.repository"] == REPOSITORY
    assert facade.attributes["towpath.bytes_in"] == 5_000
    (write,) = [span for span in _of(spans, "storage") if span.parent_id == facade.span_id]
    assert write.name == "/towpath.storage.v1.StorageService/WriteWholeObject"
    assert write.attributes["towpath.bytes_in"] == 5_000
    statements = [span for span in _of(spans, "storage") if span is not write]
    assert statements
    assert {span.parent_id for span in statements} == {write.span_id}
    assert {span.trace_id for span in spans} == {facade.trace_id}
    assert {span.name for span in statements} <= {"SELECT", "INSERT"}
    texts = [str(span.attributes["db.query.text"]) for span in statements]
    assert len([text for text in texts if "storage.commit_journaled(" in text]) == 1
    assert not any(oid_of(data) in str(span.attributes) for span in statements)


async def test_a_trace_goes_on_from_the_caller_and_a_failure_is_marked(
    traced_services: Services, collector: Collector
) -> None:
    """`traceparent` names the caller's span; an error of ours fails the span, a conflict does not."""
    trace_id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    data = content("to fail", 100)
    async with traced_services.client("alice") as alice:
        alice.http.headers.update({"traceparent": f"00-{trace_id}-{parent}-01", "X-Request-Id": "traced-lock"})
        assert (await alice.lock("traced.psd")).status_code == 201
        assert (await alice.lock("traced.psd")).status_code == 409
        assert (await alice.upload(data)).status_code == 200
        action = await alice.offered("download", data)
        path = stored_path(traced_services.folder / "bytes", oid_of(data))
        path.unlink()
        path.symlink_to(path.name)
        alice.http.headers["X-Request-Id"] = "traced-failure"
        assert (await alice.http.get(action.href, headers=action.header)).status_code == 502
    await collector.until(lambda: len(_of(collector.of_request("traced-failure"), "storage")) > 1)
    await collector.until(lambda: len(_of(collector.of_request("traced-failure"), "facade")) == 1)
    await collector.until(lambda: len(_of(collector.of_request("traced-lock"), "locks")) > 2)
    locked, conflict, *_ = _of(collector.of_request("traced-lock"), "facade")
    for span in (locked, conflict):
        assert (span.name, span.trace_id, span.parent_id) == ("create_lock", trace_id, parent)
        assert not span.failed
    failed = [span for span in collector.of_request("traced-failure") if span.failed]
    assert {span.service for span in failed} == {"towpath-facade", "towpath-storage"}


async def test_a_download_that_is_given_up_is_told_with_its_id(traced_services: Services, collector: Collector) -> None:
    """In the line and the span of storage, whose stream nobody reads to its end; nothing complains of it."""
    data = content("given up", 64 * 1024**2)
    async with traced_services.client("alice") as alice:
        assert (await alice.upload(data)).status_code == 200
        action = await alice.offered("download", data)
        alice.http.headers["X-Request-Id"] = "traced-given-up"
        async with alice.http.stream("GET", action.href, headers=action.header) as response:
            assert response.status_code == 200
    read = "/towpath.storage.v1.StorageService/ReadObject"
    await collector.until(lambda: read in {span.name for span in collector.of_request("traced-given-up")})
    (span,) = [span for span in collector.of_request("traced-given-up") if span.name == read]
    await traced_services.idle()
    (line,) = [
        line
        for line in traced_services.lines("storage")
        if line.get("request_id") == "traced-given-up" and line["event"] == "call"
    ]
    assert (line["status"], span.attributes["towpath.status"]) == ("CANCELLED", "CANCELLED")
    assert 0 < line["bytes_out"] < len(data)
    assert not [line for line in traced_services.lines("storage") if "detach" in line["event"]]


async def test_no_secret_and_no_value_is_in_any_span(traced_services: Services, collector: Collector) -> None:
    """Statements have placeholders; headers and bodies are not there."""
    async with traced_services.client("bob") as bob:
        bob.http.headers["X-Request-Id"] = "traced-secrets"
        lock = (await bob.lock("a-very-secret-path.psd")).json()["lock"]
        assert (await bob.unlock(lock["id"])).status_code == 200
        action = await bob.offered("upload", b"secrets")
        assert (await bob.put(action, b"secrets", 7)).status_code == 200
    await collector.until(lambda: any(span.name == "upload" for span in collector.of_request("traced-secrets")))
    await collector.until(lambda: any(span.name == "DELETE" or "WITH" in span.name for span in collector.spans))
    shown = action.header["X-Towpath-Token"]
    for secret in (*traced_services.tokens.values(), SERVICE_SECRET, METRICS_TOKEN, shown, "a-very-secret-path"):
        assert secret not in collector.raw
    assert "$1" in collector.raw


async def test_a_collector_that_is_away_holds_nothing_up(postgres: TestPostgres, tmp_path: Path) -> None:
    """Requests are served, and the services end when they are told to."""
    async with running_services(postgres, tmp_path, traces_endpoint="http://127.0.0.1:1") as services:
        async with services.client("alice") as alice:
            assert (await alice.upload(b"without a collector")).status_code == 200
        await services.stop()
        assert {process.wait(0) for process in services.processes.values()} == {0}


@pytest.mark.parametrize(
    ("service", "absent"),
    [
        ("storage", ["opentelemetry"]),
        ("locks", ["opentelemetry"]),
        # FastAPI imports the API; that alone does nothing.
        ("facade", ["opentelemetry.sdk", "opentelemetry.exporter"]),
    ],
)
async def test_nothing_is_imported_while_traces_are_off(service: str, absent: list[str]) -> None:
    """No module of a service loads the OpenTelemetry SDK while traces are off, so that they cost nothing."""
    program = f"import sys, services.{service}.__main__; sys.exit(any(name in sys.modules for name in {absent!r}))"
    result = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], check=False)
    assert result.returncode == 0


def test_an_endpoint_without_the_packages_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    monkeypatch.delitem(sys.modules, "services.common.observability.spans", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with (
        pytest.raises(ValueError, match=r"traces_endpoint: needs .*pip install 'towpath\[tracing\]'"),
        traced("x", "y"),
    ):
        pass
