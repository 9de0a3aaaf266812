"""A check that docs/grpc.md describes every call of the .proto files, and nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc  # type: ignore[import-untyped] # the package has no types

from services.common.errors import Reason
from tests.support.sources import ROOT, fail_with, text

PAGE = ROOT / "docs" / "grpc.md"
COLUMNS = 5
STATUSES = {status.name for status in grpc.StatusCode}
REASONS = {reason.value for reason in Reason}
# What the page calls in capitals that is neither: values of enums and words.
OTHER = {"INTENT_WRITE", "NOT_SERVING", "OK"}
# The numbers of fields in descriptor.proto: a file's services, a service's methods.
SERVICES, METHODS = 6, 2


def _capitals(words: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", words)) | (STATUSES & set(re.findall(r"\b[A-Z]{3,}\b", words)))


def _files(folder: Path) -> FileDescriptorSet:
    """Return what the .proto files say, comments included."""
    sources = [str(path.relative_to(ROOT / "proto")) for path in (ROOT / "proto").glob("towpath/**/*.proto")]
    out = folder / "descriptors"
    well_known = Path(protoc.__file__).parent / "_proto"
    arguments = [f"-I{ROOT / 'proto'}", f"-I{well_known}", f"--descriptor_set_out={out}", "--include_source_info"]
    assert protoc.main(["protoc", *arguments, *sources]) == 0
    return FileDescriptorSet.FromString(out.read_bytes())


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The comment of every call, by SERVICE/METHOD."""
    comments = {}
    for file in _files(tmp_path_factory.mktemp("protos")).file:
        told = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}
        for number, service in enumerate(file.service):
            for index, method in enumerate(service.method):
                comment = told[SERVICES, number, METHODS, index]
                comments[f"{file.package}.{service.name}/{method.name}"] = comment
    return comments


def _rows() -> Iterator[tuple[str, list[str]]]:
    service = ""
    for line in text(PAGE).splitlines():
        if line.startswith("#"):
            service = line.removeprefix("### ") if line.startswith("### towpath.") else ""
        elif service and line.startswith("| `"):
            call, *cells = [cell.strip() for cell in line[1:-1].split("|")]
            yield f"{service}/{call.strip('`')}", cells


def test_every_call_has_one_row_and_every_row_is_a_call(documented: dict[str, str]) -> None:
    """The tables list the calls of each service in the order of its file."""
    rows = [name for name, _ in _rows()]
    assert sorted(rows) == sorted(documented)
    for service in {name.partition("/")[0] for name in rows}:
        expected = [name for name in documented if name.startswith(f"{service}/")]
        assert [name for name in rows if name.startswith(f"{service}/")] == expected


def test_every_row_says_what_to_do() -> None:
    """A row says what the call does, which deadline it needs and whether it is safe to repeat."""
    for name, cells in _rows():
        assert len(cells) == COLUMNS - 1, name
        does, _, deadline, repeat = cells
        assert does, name
        assert re.search(r"\d+ s|the largest object", deadline), name
        assert re.match(r"yes|no|with", repeat), name


def test_the_errors_of_each_call_are_those_of_its_comment(documented: dict[str, str]) -> None:
    """The page and the .proto file name the same statuses and reasons for each call."""
    known = STATUSES | REASONS
    errors = {name: documented[name].partition("Errors:")[2] for name, _ in _rows()}
    different = {name: (_capitals(cells[1]) ^ _capitals(errors[name])) & known for name, cells in _rows()}
    fail_with(f"{name}: only the page or only the .proto file has {only}" for name, only in different.items() if only)


def test_every_reason_in_a_comment_exists(documented: dict[str, str]) -> None:
    """The .proto files name no status and no reason that the code does not know."""
    named = {call: _capitals(comment.partition("Errors:")[2]) for call, comment in documented.items()}
    fail_with(f"{call}: {word}" for call, words in named.items() for word in sorted(words - STATUSES - REASONS))


def test_every_reason_on_the_page_exists() -> None:
    """The page names no other words in capitals than statuses, reasons, settings and a few enum values."""
    assert _capitals(re.sub(r"TOWPATH_[A-Z_]+", "", text(PAGE))) - OTHER - STATUSES - REASONS == set()
