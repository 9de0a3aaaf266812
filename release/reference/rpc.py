"""The page of the messages of gRPC: every call with its types, every message and every enum of the .proto files."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from grpc_tools import protoc  # type: ignore[import-untyped] # the package has no types

from release.reference.markdown import document, paragraphs, table, text

PROTO = Path(__file__).parents[2] / "proto"
INTRODUCTION = """
[grpc.md](../grpc.md) says who may call what, with which deadline, which errors there are, and what stays as it is.
This page has the types, which the [`.proto` files](../../proto) have for programs.
"""
# The numbers of fields in descriptor.proto, of which the paths of comments are made.
_MESSAGES, _ENUMS, _FIELDS, _NESTED, _NESTED_ENUMS, _VALUES, _PACKAGE = 4, 5, 2, 3, 4, 2, 2
Comments = dict[tuple[int, ...], str]


def page() -> str:
    """Return the text of the page."""
    lines = [*INTRODUCTION.strip().splitlines(), ""]
    for file in _files():
        comments = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}
        lines += [f"## {file.name}", "", *paragraphs(comments.get((_PACKAGE,), ""))]
        for service in file.service:
            lines += _calls(file, service)
        for number, message in enumerate(file.message_type):
            lines += _message(f"{file.package}.{message.name}", message, (_MESSAGES, number), comments)
        for number, enum in enumerate(file.enum_type):
            lines += _enum(f"{file.package}.{enum.name}", enum, (_ENUMS, number), comments)
    return document("gRPC messages", lines)


def _files() -> list[FileDescriptorProto]:
    """Return the .proto files with their comments."""
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("towpath/**/*.proto"))
    well_known = Path(protoc.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "descriptors"
        arguments = [f"-I{PROTO}", f"-I{well_known}", f"--descriptor_set_out={out}", "--include_source_info"]
        if protoc.main(["protoc", *arguments, *sources]) != 0:
            raise SystemExit("protoc failed")
        return sorted(FileDescriptorSet.FromString(out.read_bytes()).file, key=lambda file: file.name)


def _calls(file: FileDescriptorProto, service: ServiceDescriptorProto) -> list[str]:
    name = f"{file.package}.{service.name}"
    rows = [
        (
            f"`{call.name}`",
            ("stream of " if call.client_streaming else "") + _linked(call.input_type),
            ("stream of " if call.server_streaming else "") + _linked(call.output_type),
        )
        for call in service.method
    ]
    link = f"[What they do](../grpc.md#{_anchor(name)}), with their errors."
    return [f"### {name}", "", link, "", *table(("call", "request", "response"), rows)]


def _message(name: str, message: DescriptorProto, path: tuple[int, ...], comments: Comments) -> Iterator[str]:
    if message.options.map_entry:
        return
    entries = {f".{name}.{each.name}": each for each in message.nested_type if each.options.map_entry}
    rows = [
        (
            f"`{field.name}`",
            str(field.number),
            _type(field, entries),
            text(comments.get((*path, _FIELDS, number), "")),
        )
        for number, field in enumerate(message.field)
    ]
    yield from (f"### {name}", "", *paragraphs(comments.get(path, "")))
    yield from table(("field", "number", "type", "what it is"), rows)
    for number, nested in enumerate(message.nested_type):
        yield from _message(f"{name}.{nested.name}", nested, (*path, _NESTED, number), comments)
    for number, enum in enumerate(message.enum_type):
        yield from _enum(f"{name}.{enum.name}", enum, (*path, _NESTED_ENUMS, number), comments)


def _enum(name: str, enum: EnumDescriptorProto, path: tuple[int, ...], comments: Comments) -> Iterator[str]:
    rows = [
        (f"`{value.name}`", str(value.number), text(comments.get((*path, _VALUES, number), "")))
        for number, value in enumerate(enum.value)
    ]
    yield from (f"### {name}", "", *paragraphs(comments.get(path, "")))
    yield from table(("value", "number", "what it is"), rows)


def _type(field: FieldDescriptorProto, entries: dict[str, DescriptorProto]) -> str:
    if (entry := entries.get(field.type_name)) is not None:
        key, value = entry.field
        return f"map of {_scalar(key)} to {_scalar(value)}"
    repeated = "repeated " if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
    optional = "optional " if field.proto3_optional else ""
    return f"{repeated}{optional}{_scalar(field)}"


def _scalar(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return _linked(field.type_name)
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _linked(type_name: str) -> str:
    """Return the short name of a type, as a link where it is on this page."""
    full = type_name.removeprefix(".")
    if not full.startswith("towpath."):
        return f"`{full}`"
    short = ".".join(part for part in full.split(".") if part[0].isupper())
    return f"[{short}](#{_anchor(full)})"


def _anchor(heading: str) -> str:
    return heading.replace(".", "").lower()
