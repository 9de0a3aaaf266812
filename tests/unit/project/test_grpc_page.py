"""A check that docs/grpc.md describes every call of the .proto files, and nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc  # type: ignore[import-untyped] # the package has no types

from services.common.errors import Reason

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "grpc.md"
COLUMNS = 5
STATUSES = {status.name for status in grpc.StatusCode}
REASONS = {reason.value for reason in Reason}
# What the page calls in capitals that is neither: values of enums and words.
OTHER = {"INTENT_WRITE", "NOT_SERVING", "OK"}
# The numbers of fields in descriptor.proto: a file's services, a service's methods.
SERVICES, METHODS = 6, 2


def _capitals(text: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", text)) | (STATUSES & set(re.findall(r"\b[A-Z]{3,}\b", text)))


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
    for line in PAGE.read_text().splitlines():
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
    """Status by status and reason by reason."""
    for name, cells in _rows():
        told = _capitals(documented[name].partition("Errors:")[2]) & (STATUSES | REASONS)
        listed = _capitals(cells[1]) & (STATUSES | REASONS)
        assert listed == told, f"{name}: only the page or only the .proto file tells {listed ^ told}"


def test_every_reason_in_a_comment_exists(documented: dict[str, str]) -> None:
    """The .proto files name no status and no reason that the code does not know."""
    for name, comment in documented.items():
        unknown = _capitals(comment.partition("Errors:")[2]) - STATUSES - REASONS
        assert not unknown, f"{name}: {unknown}"


def test_every_reason_on_the_page_exists() -> None:
    """The page names no other words in capitals than statuses, reasons, settings and a few enum values."""
    text = re.sub(r"TOWPATH_[A-Z_]+", "", PAGE.read_text())
    assert _capitals(text) - OTHER <= STATUSES | REASONS


def test_the_links_of_the_page_and_of_the_examples_lead_somewhere() -> None:
    """Every relative link names a file or a folder."""
    for page in (PAGE, ROOT / "examples" / "README.md"):
        links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        assert links
        for link in links:
            assert (page.parent / link).exists(), f"{page.name}: {link}"
