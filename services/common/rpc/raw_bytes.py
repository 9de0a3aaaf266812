"""Serialization of messages that carry only bytes, without protobuf, because it copies the bytes at each step."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from google.protobuf.message import Message

MessageT = TypeVar("MessageT", bound=Message)

_LENGTH_DELIMITED = 2
_MAX_LENGTH_BYTES = 5


class BytesField(Generic[MessageT]):
    """The field `name` of a message, in the wire format of protobuf."""

    def __init__(self, message: type[MessageT], name: str) -> None:
        self._message = message
        self._tag = _varint(message.DESCRIPTOR.fields_by_name[name].number << 3 | _LENGTH_DELIMITED)

    def serialize(self, pieces: Sequence[bytes | memoryview]) -> bytes:
        """Return the serialized message that has the joined pieces in this field, and nothing else."""
        return b"".join((self._head(sum(map(len, pieces))), *pieces))

    def parse(self, serialized: bytes) -> memoryview | MessageT:
        """Return the bytes in this field if the message has nothing else, and otherwise the message.

        Raises `DecodeError` if `serialized` is no message of this type.
        """
        for digits in range(1, _MAX_LENGTH_BYTES + 1):
            start = len(self._tag) + digits
            if start <= len(serialized) and serialized[:start] == self._head(len(serialized) - start):
                return memoryview(serialized)[start:]
        return self._message.FromString(serialized)

    def _head(self, length: int) -> bytes:
        return self._tag + _varint(length)


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)
