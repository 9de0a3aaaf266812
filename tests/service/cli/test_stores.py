"""Requests and output of `towpath storage`, before an AdminService that answers as a test tells it to."""

import io
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.progress import Progress
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1.store_service_pb2 import Copy, Store
from typer.testing import CliRunner

from services.cli.admin import watch_copy
from services.cli.admin.records import store_record
from services.cli.admin.watch_copy import CopyBar
from services.cli.main import app
from services.common.errors import FailedPrecondition, Reason, ServiceError, Unavailable, trailing_metadata
from tests.support.stack import TOWPATH
from tests.support.waiting import STEP_SECONDS

FIRST = Store(name="first", is_primary=True, object_count=3, object_bytes=2_500_000, created_at=Timestamp(seconds=0))
COPY = Copy(from_store="first", parallel=8, bytes_per_second=50_000_000, started_at=Timestamp(seconds=60))
BUCKET = Store(
    name="bucket",
    url="s3://objects?endpoint=https://s3.example.org",
    object_count=1,
    object_bytes=500_000,
    lacking_count=2,
    lacking_bytes=2_000_000,
    copy=COPY,
    created_at=Timestamp(seconds=0),
    oldest_check_at=Timestamp(seconds=24 * 3600),
)
WHOLE = Store(name="bucket", object_count=3, object_bytes=2_500_000, copy=COPY)
RECORD = {
    "name": "bucket",
    "url": "s3://objects?endpoint=https://s3.example.org",
    "primary": False,
    "object_count": 1,
    "object_bytes": 500_000,
    "lacking_count": 2,
    "lacking_bytes": 2_000_000,
    "created_at": "1970-01-01T00:00:00Z",
    "oldest_check_at": "1970-01-02T00:00:00Z",
    "copy": {
        "from": "first",
        "parallel": 8,
        "bytes_per_second": 50_000_000,
        "started_at": "1970-01-01T00:01:00Z",
        "problem": "",
    },
}


_ANSWERS: dict[str, Message] = {
    "CreateStore": pb.CreateStoreResponse(store=BUCKET),
    "StartCopy": pb.StartCopyResponse(store=BUCKET),
    "StopCopy": pb.StopCopyResponse(store=BUCKET),
    "SetPrimaryStore": pb.SetPrimaryStoreResponse(store=BUCKET),
    "DeleteStore": pb.DeleteStoreResponse(),
}


class Service(grpc.GenericRpcHandler):
    """An AdminService that notes what it is asked, and fails as `failure` says; lists come one after the other."""

    def __init__(self) -> None:
        self.asked: list[Message] = []
        self.failure: ServiceError | None = None
        self.lists: list[list[Store] | ServiceError] = [[BUCKET, FIRST]]
        self.listed = threading.Event()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any]":
        """Return what serves a call, whichever it is."""
        method = handler_call_details.method.rsplit("/", 1)[1]

        def answer(request: Message, context: grpc.ServicerContext) -> Message:
            self.asked.append(request)
            given = self._next_list() if method == "ListStores" else None
            failure = given if isinstance(given, ServiceError) else self.failure
            if failure is not None:
                context.set_trailing_metadata(trailing_metadata(failure))
                context.abort(failure.status, failure.message)
            return pb.ListStoresResponse(stores=given) if isinstance(given, list) else _ANSWERS[method]

        return grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=getattr(pb, f"{method}Request").FromString,
            response_serializer=_serialized,
        )

    def _next_list(self) -> list[Store] | ServiceError:
        self.listed.set()
        return self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The service that the environment names, and a watch that does not wait."""
    service = Service()
    address = f"unix:{tmp_path}/locks.sock"
    server = grpc.server(ThreadPoolExecutor(2), handlers=[service])
    server.add_insecure_port(address)
    server.start()
    monkeypatch.setenv("TOWPATH_SERVER", address)
    monkeypatch.setenv("TOWPATH_TOKEN", "of-an-administrator")
    monkeypatch.setattr(watch_copy, "watch", partial(watch_copy.watch, every=0.0))
    yield service
    server.stop(None).wait(STEP_SECONDS)


def towpath(*arguments: str) -> tuple[str, str]:
    """Run a command of `towpath storage` well, and return what it prints and what it says beside it."""
    result = CliRunner().invoke(app, ["storage", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout, result.stderr


@pytest.mark.usefixtures("service")
def test_list() -> None:
    """For people human sizes, a word for what has no URL, and of a copy whose it is."""
    stdout, _ = towpath("list")
    title, bucket, first = stdout.splitlines()
    assert title.split() == [
        "NAME",
        "URL",
        "PRIMARY",
        "OBJECTS",
        "BYTES",
        "LACKING",
        "COPY",
        "OF",
        "PROBLEM",
        "OLDEST",
        "CHECK",
    ]
    for text in ("500.0 kB", "2 objects, 2.0 MB", "first (8 at once, at most 50.0 MB/s)", BUCKET.url):
        assert text in bucket
    assert first.split() == ["first", "(TOWPATH_STORAGE_URL)", "yes", "3", "2.5", "MB", "nothing"]


@pytest.mark.usefixtures("service")
def test_list_as_json() -> None:
    """For programs whole numbers; what is absent is absent."""
    stdout, _ = towpath("list", "--json")
    bucket, first = json.loads(stdout)
    assert bucket == RECORD
    assert first.keys() == RECORD.keys() - {"url", "oldest_check_at", "copy"}
    assert first["primary"] is True


@pytest.mark.parametrize(
    ("arguments", "request_made"),
    [
        (("add", "bucket", "s3://objects"), pb.CreateStoreRequest(name="bucket", url="s3://objects")),
        (("stop-copy", "bucket"), pb.StopCopyRequest(name="bucket")),
        (("set-primary", "bucket"), pb.SetPrimaryStoreRequest(name="bucket")),
        (
            ("copy", "first", "bucket", "--no-wait", "--parallel", "3", "--rate", "9"),
            pb.StartCopyRequest(from_store="first", to_store="bucket", parallel=3, bytes_per_second=9 * 1024**2),
        ),
    ],
    ids=["add", "stop-copy", "set-primary", "copy"],
)
def test_commands_that_return_at_once(service: Service, arguments: tuple[str, ...], request_made: Message) -> None:
    """Each makes one call and prints the store."""
    stdout, _ = towpath(*arguments, "--json")
    assert json.loads(stdout) == RECORD
    assert "2 objects, 2.0 MB" in towpath(*arguments)[0]
    assert service.asked == [request_made, request_made]


def test_remove(service: Service) -> None:
    """It says what a setting that names the store needs."""
    assert json.loads(towpath("remove", "first", "--json")[0]) == {"name": "first"}
    assert "TOWPATH_STORAGE_URL" in towpath("remove", "first")[0]
    assert service.asked == [pb.DeleteStoreRequest(name="first")] * 2


def test_copy_waits_until_nothing_is_lacking(service: Service) -> None:
    """Without a terminal there is no bar: what goes wrong is told beside it, and the end says what comes next."""
    troubled = Store()
    troubled.CopyFrom(BUCKET)
    troubled.copy.problem = "first: object 12ab is damaged\x1b[31m"
    away = Unavailable(Reason.UNAVAILABLE, "an inner service does not answer")
    service.lists = [[BUCKET, FIRST], [troubled, FIRST], [troubled, FIRST], away, [WHOLE, FIRST]]
    stdout, stderr = towpath("copy", "first", "bucket")
    assert service.asked == [
        pb.StartCopyRequest(from_store="first", to_store="bucket"),
        *[pb.ListStoresRequest()] * 5,
    ]
    assert stderr.splitlines() == [
        "first: object 12ab is damaged\\x1b[31m",
        "no answer: an inner service does not answer",
    ]
    assert "bucket lacks nothing: it has 3 objects, 2.5 MB." in stdout
    assert "towpath storage set-primary bucket" in stdout


def test_copy_as_json(service: Service) -> None:
    """One document, the store at the end."""
    service.lists = [[BUCKET, FIRST], [WHOLE, FIRST]]
    stdout, stderr = towpath("copy", "first", "bucket", "--json")
    assert json.loads(stdout) == store_record(WHOLE)
    assert stderr == ""


def test_an_interrupted_copy_goes_on(service: Service) -> None:
    """Ctrl-C ends the showing: that is said, with the commands that show and stop the copy."""
    command = [*TOWPATH, "storage", "copy", "first", "bucket"]
    # What runs in the background of a shell ignores it, and so would the command.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert service.listed.wait(STEP_SECONDS)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=STEP_SECONDS)
    assert (process.returncode, stdout) == (130, "")
    [line] = stderr.splitlines()
    assert line.startswith("The copy goes on; ")
    assert "towpath storage stop-copy bucket" in line
    assert not any(isinstance(request, pb.StopCopyRequest) for request in service.asked)


def test_a_refusal_is_passed_on(service: Service) -> None:
    """A refusal by the service must end the command before it waits for anything."""
    service.failure = FailedPrecondition(Reason.STORE_IN_USE, "first is the primary")
    for arguments in (("remove", "first"), ("copy", "first", "bucket"), ("list",)):
        result = CliRunner().invoke(app, ["storage", *arguments])
        assert isinstance(result.exception, FailedPrecondition)
        assert result.stdout == ""
    assert len(service.asked) == 3


def test_the_bar() -> None:
    """It counts what was lacking at first, whatever is written meanwhile, and goes on where an earlier one stopped."""
    progress = Progress(console=Console(file=io.StringIO()))
    bar = CopyBar(progress)
    [task] = progress.tasks
    seen = []
    for count, had, lacked in ((2, 500, 1500), (2, 900, 1200), (1, 1500, 1600), (0, 2100, 0)):
        bar.show(Store(name="bucket", object_bytes=had, lacking_count=count, lacking_bytes=lacked))
        seen.append((task.completed, task.total, task.fields["left"]))
    assert seen == [(500, 2000, 2), (800, 2000, 2), (400, 2000, 1), (2000, 2000, 0)]
    assert task.finished


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://objects/towpath?endpoint=https://s3.example.org&region=x", None),
        ("file:///srv/@towpath", None),
        ("s3://key:secret@objects", "s3://***@objects"),
        ("s3://objects?endpoint=https://key:se/cret@s3.example.org", "s3://***@s3.example.org"),
        ("az://objects?account=studio&account_key=secret", "az://objects?account=studio&account_key=***"),
        ("s3://objects?secret_access_key=secret&region=x", "s3://objects?secret_access_key=***&region=x"),
    ],
)
def test_credentials_are_not_shown(url: str, shown: str | None) -> None:
    """A URL holds none; one that does all the same is shown without them."""
    record: dict[str, Any] = store_record(Store(name="bucket", url=url))
    assert record["url"] == (shown or url)
