"""Messages that carry nothing but bytes, beside what protobuf makes of them."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.rpc.raw_bytes import BytesField

DATA = BytesField(pb.WriteObjectRequest, "data")
LENGTHS = [0, 1, 127, 128, 129, 16383, 16384, 16385, 1024 * 1024, 2097151, 2097152]


@pytest.mark.parametrize("length", LENGTHS)
def test_as_protobuf_writes_and_reads_it(length: int) -> None:
    """Of every length, the message is that of protobuf, byte for byte, and its bytes come back."""
    data = bytes(range(256)) * (length // 256) + bytes(length % 256)
    serialized = pb.WriteObjectRequest(data=data).SerializeToString()
    assert DATA.serialize([data[: length // 3], data[length // 3 :]]) == serialized
    parsed = DATA.parse(serialized)
    assert isinstance(parsed, memoryview)
    assert parsed == data


def test_another_field_is_a_message() -> None:
    """A message may have other fields, so protobuf must read everything that is not in the bytes field."""
    message = pb.WriteObjectRequest(header=pb.WriteObjectRequest.Header(repository_id=7, oid="ab", size=3))
    assert DATA.parse(message.SerializeToString()) == message
    assert DATA.parse(b"") == pb.WriteObjectRequest()


def test_what_another_program_may_write() -> None:
    """A length with more digits than it needs, and the field twice, are valid, and what they are to protobuf."""
    for serialized in (b"\x12\x83\x00abc", b"\x12\x01x\x12\x03abc"):
        assert DATA.parse(serialized) == pb.WriteObjectRequest.FromString(serialized)


@given(st.one_of(st.binary(), st.binary().map(b"\x12".__add__), st.binary().map(b"\x12\x80".__add__)))
def test_any_bytes_are_what_they_are_to_protobuf(serialized: bytes) -> None:
    """Nothing is read that protobuf does not read, nor otherwise."""
    try:
        expected = pb.WriteObjectRequest.FromString(serialized)
    except DecodeError:
        with pytest.raises(DecodeError):
            DATA.parse(serialized)
        return
    parsed = DATA.parse(serialized)
    if isinstance(parsed, memoryview):
        assert expected == pb.WriteObjectRequest(data=parsed.tobytes())
    else:
        assert parsed == expected
