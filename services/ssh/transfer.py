"""`git-lfs-transfer`: version 1 of the SSH protocol, command by command."""

from services.ssh.asked_refs import AskedRefs
from services.ssh.errors import ProtocolError, Refused
from services.ssh.interface import Repository
from services.ssh.locks import Locks
from services.ssh.metrics import REFUSED_COMMANDS
from services.ssh.objects import Objects
from services.ssh.pkt_line import Message, Reader, Writer

_BAD_REQUEST, _NOT_FOUND = 400, 404


class Transfer:
    """One session."""

    def __init__(self, repository: Repository, refs: AskedRefs, operation: str, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer
        self._operation = operation
        self._objects = Objects(repository, refs, operation, reader, writer)
        self._locks = Locks(repository, writer)
        self._has_version = False

    async def run(self) -> None:
        """Answer commands until the client quits. Raises `ProtocolError`, `Disconnected` and `CutShort`."""
        await self._writer.advertise("version=1", "locking")
        while True:
            message = await self._read()
            if message.command == "quit":
                await self._writer.answer(200)
                return
            try:
                await self._answer(message)
            except Refused as refused:
                REFUSED_COMMANDS.labels(str(refused.status)).inc()
                await self._writer.answer(refused.status, lines=[refused.message])

    async def _read(self) -> Message:
        try:
            return await self._reader.message()
        except ProtocolError as error:
            await self._writer.answer(_BAD_REQUEST, lines=[str(error)])
            raise

    async def _answer(self, message: Message) -> None:
        command, _, rest = message.command.partition(" ")
        if command != "put-object" and command != "batch" and not message.ended:
            # The specification lets some commands end with a delimiter before the flush.
            await self._reader.lines()
        if not self._has_version and command != "version":
            await self._skip(message)
            raise Refused(_BAD_REQUEST, "expected the command version first")
        match command, self._operation:
            case "version", _:
                await self._version(rest)
            case "batch", "upload" | "download":
                await self._objects.batch(message)
            case "get-object", "download":
                await self._objects.get(rest, message)
            case "put-object", "upload":
                await self._objects.put(rest, message)
            case "verify-object", "upload":
                await self._objects.verify(rest, message)
            case "lock", _:
                await self._locks.lock(message)
            # git-lfs 3.3 says list-locks when it verifies.
            case "list-lock" | "list-locks", _:
                await self._locks.list_page(message)
            case "unlock", _:
                await self._locks.unlock(rest, message)
            case _:
                await self._skip(message)
                raise Refused(_NOT_FOUND, f"command: expected one of version 1 for {self._operation}")

    async def _skip(self, message: Message) -> None:
        """Read the rest of a message that nobody wants."""
        if not message.ended and message.command.partition(" ")[0] in ("put-object", "batch"):
            async for _ in self._reader.data():
                pass

    async def _version(self, number: str) -> None:
        if number != "1":
            raise Refused(_BAD_REQUEST, "version: expected 1")
        self._has_version = True
        await self._writer.answer(200)
