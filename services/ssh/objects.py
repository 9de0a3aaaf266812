"""Objects over SSH: batches, uploads, downloads and verification.

A client opens several connections, and brings an object on another one than it asked on. So an object's action is
asked for anew, by the size and the ref that the object's `id` carries; no address comes from the client.
"""

import base64
import binascii
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from services.ssh.asked_refs import AskedRefs
from services.ssh.errors import Refused
from services.ssh.interface import CHUNK_BYTES, Repository, raise_for_status
from services.ssh.pkt_line import Message, Reader, Writer

_OID = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SIZE = re.compile(r"[0-9]{1,19}", re.ASCII)
_BAD_REQUEST, _CONFLICT, _BAD_GATEWAY = 400, 409, 502
_SENT_BYTES = 16 * 65_516
"""The most bytes that are gathered for one write."""


def check_oid(text: str) -> str:
    """Return an oid. Raises `Refused` (400) for anything else."""
    if not _OID.fullmatch(text):
        raise Refused(_BAD_REQUEST, "oid: expected 64 lower-case hexadecimal digits")
    return text


def check_size(text: str) -> int:
    """Return a size. Raises `Refused` (400) for anything else."""
    if not _SIZE.fullmatch(text) or int(text) >= 2**63:
        raise Refused(_BAD_REQUEST, "size: expected a number of bytes")
    return int(text)


def _id_of(size: int, ref: str) -> str:
    return f"{size}.{base64.urlsafe_b64encode(ref.encode()).decode().rstrip('=')}"


def _size_and_ref(message: Message, known_ref: str) -> tuple[int, str]:
    """Return the size and the ref that a request about an object names; without an `id`, the ref that is known."""
    told, dot, encoded = message.arguments.get("id", "").partition(".")
    try:
        ref = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, ValueError) as error:
        raise Refused(_BAD_REQUEST, "id: expected what the batch has answered") from error
    size = check_size(message.arguments.get("size") or told)
    if told and check_size(told) != size:
        raise Refused(_BAD_REQUEST, "size: expected the size that the batch was asked for")
    return size, ref if dot else known_ref


class Objects:
    """The commands for objects of one session."""

    def __init__(self, repository: Repository, refs: AskedRefs, operation: str, reader: Reader, writer: Writer) -> None:
        self._repository = repository
        self._refs = refs
        self._operation = operation
        self._reader = reader
        self._writer = writer

    async def batch(self, message: Message) -> None:
        """Answer `batch`: a line for each object."""
        lines = [] if message.ended else await self._reader.lines()
        algorithm = message.arguments.get("hash-algo") or "sha256"
        if algorithm != "sha256":
            raise Refused(_CONFLICT, f"hash-algo: expected sha256, got {algorithm[:64]}")
        objects: list[dict[str, Any]] = []
        for line in lines:
            oid, _, rest = line.partition(" ")
            objects.append({"oid": check_oid(oid), "size": check_size(rest.partition(" ")[0])})
        ref = message.arguments.get("refname", "")
        operation = "upload" if self._operation == "upload" else "download"
        answers = await self._batch(operation, objects, ref)
        told = []
        for asked, answer in zip(objects, answers, strict=True):
            # An object with an error gets its action, too: it is refused with a message when the client wants it.
            has_action = "error" in answer or operation in (answer.get("actions") or {})
            action = f"{operation} id={_id_of(asked['size'], ref)}" if has_action else "noop"
            if has_action and ref and operation == "upload":
                self._refs.record(self._repository.user_name, self._repository.name, asked["oid"], ref)
            told.append(f"{asked['oid']} {asked['size']} {action}")
        await self._writer.answer(200, "hash-algo=sha256", lines=told)

    async def _batch(self, operation: str, objects: list[dict[str, Any]], ref: str) -> list[dict[str, Any]]:
        body: dict[str, Any] = {"operation": operation, "transfers": ["basic"], "objects": objects}
        if ref:
            body["ref"] = {"name": ref}
        _, answer = await self._repository.call("POST", "objects/batch", body)
        found = answer.get("objects")
        if not isinstance(found, list) or len(found) != len(objects):
            raise Refused(_BAD_GATEWAY, "the server's answer has other objects")
        return found

    def _known_ref(self, oid: str) -> str:
        return self._refs.find(self._repository.user_name, self._repository.name, oid)

    async def _action(self, operation: str, oid: str, size: int, ref: str) -> Mapping[str, Any]:
        """Return the actions of one object. Raises `Refused` with the object's error."""
        [answer] = await self._batch(operation, [{"oid": oid, "size": size}], ref)
        if error := answer.get("error"):
            raise Refused(int(error.get("code", _BAD_GATEWAY)), str(error.get("message", "")))
        actions: Mapping[str, Any] = answer.get("actions") or {}
        return actions

    async def get(self, oid: str, message: Message) -> None:
        """Answer `get-object`: the bytes. Once they have begun, a failure ends the session."""
        check_oid(oid)
        size, ref = _size_and_ref(message, self._known_ref(oid))
        actions = await self._action("download", oid, size, ref)
        action = actions.get("download")
        if not isinstance(action, dict):
            raise Refused(_BAD_GATEWAY, "the server's answer has no action")
        async with self._repository.facade.request("GET", action["href"], action.get("header") or {}) as response:
            await raise_for_status(response)
            await self._writer.begin_data(200, f"size={size}")
            # From here on, a failure cannot be told but by the end of the session.
            await self._send(response.aiter_raw(CHUNK_BYTES), size)

    async def _send(self, parts: AsyncIterator[bytes], size: int) -> None:
        sent = 0
        try:
            async for part in parts:
                sent += len(part)
                if sent > size:
                    break
                for begin in range(0, len(part), _SENT_BYTES):
                    await self._writer.data(part[begin : begin + _SENT_BYTES])
        except Exception as error:
            raise CutShort(f"the download was cut short after {sent} of {size} bytes") from error
        if sent != size:
            raise CutShort(f"the download has another size than {size} bytes")
        await self._writer.end_data()

    async def put(self, oid: str, message: Message) -> None:
        """Answer `put-object`: take the bytes, and have them verified and stored."""
        if message.ended:
            raise Refused(_BAD_REQUEST, "expected the data of the object")
        data = Upload(self._reader)
        try:
            await self._store(oid, message, data)
        except Refused:
            # The next command follows the data; any other error ends the session, and nobody waits for the rest.
            await data.drain()
            raise
        await data.drain()
        await self._writer.answer(200)

    async def _store(self, oid: str, message: Message, data: "Upload") -> None:
        check_oid(oid)
        size, ref = _size_and_ref(message, self._known_ref(oid))
        actions = await self._action("upload", oid, size, ref)
        if action := actions.get("upload"):
            await self._put(action, data, size)
        if action := actions.get("verify"):
            await self._verify(action, oid, size)

    async def _put(self, action: Mapping[str, Any], data: "Upload", size: int) -> None:
        headers = {**(action.get("header") or {}), "Content-Length": str(size)}
        headers.setdefault("Content-Type", "application/octet-stream")
        async with self._repository.facade.request(
            "PUT", action["href"], headers, content=data.parts(size)
        ) as response:
            await raise_for_status(response)

    async def _verify(self, action: Mapping[str, Any], oid: str, size: int) -> None:
        headers = {**(action.get("header") or {}), "Content-Type": "application/vnd.git-lfs+json"}
        body = f'{{"oid": "{oid}", "size": {size}}}'.encode()
        async with self._repository.facade.request("POST", action["href"], headers, content=body) as response:
            await raise_for_status(response)

    async def verify(self, rest: str, message: Message) -> None:
        """Answer `verify-object`: whether the repository holds the object."""
        oid, _, told = rest.partition(" ")
        if told:
            message.arguments.setdefault("size", told)
        check_oid(oid)
        size, ref = _size_and_ref(message, self._known_ref(oid))
        await self._action("download", oid, size, ref)
        await self._writer.answer(200)


class CutShort(Exception):
    """A download that has begun cannot go on."""


class Upload:
    """The data of an upload, gathered into larger parts and counted."""

    def __init__(self, reader: Reader) -> None:
        self._data = reader.data()
        self._has_ended = False

    async def parts(self, size: int) -> AsyncIterator[bytes]:
        """Yield exactly `size` bytes. Raises `Refused` (400) if the client sends fewer or more."""
        left = size
        gathered = bytearray()
        async for part in self._data:
            left -= len(part)
            if left < 0:
                raise Refused(_BAD_REQUEST, f"expected {size} bytes, got more")
            gathered += part
            if len(gathered) >= CHUNK_BYTES:
                yield bytes(gathered)
                gathered.clear()
        self._has_ended = True
        if left:
            raise Refused(_BAD_REQUEST, f"expected {size} bytes, got {size - left}")
        if gathered:
            yield bytes(gathered)

    async def drain(self) -> None:
        """Read the rest of the data, which nobody wants."""
        if not self._has_ended:
            async for _ in self._data:
                pass
