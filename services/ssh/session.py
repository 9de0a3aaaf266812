"""One command of one client, from its request to its exit status."""

import json
import time
from dataclasses import dataclass, field

from services.common.errors import NotFound, ServiceError
from services.common.observability.logs import get_logger
from services.ssh.asked_refs import AskedRefs
from services.ssh.command import Command, Program, parse_command
from services.ssh.descriptors import Input, Output
from services.ssh.errors import Disconnected, ProtocolError, Refused
from services.ssh.interface import Facade, Repository
from services.ssh.objects import CutShort
from services.ssh.pkt_line import Reader, Writer
from services.ssh.settings import SshSettings
from services.ssh.shares import Shares
from services.ssh.tokens import Keys, SessionToken
from services.ssh.transfer import Transfer

_MAX_EXIT_STATUS = 255
_STALL_SECONDS = 120.0
_UNAUTHORIZED = 401

_log = get_logger(__name__)


@dataclass(frozen=True)
class Sessions:
    """Runs the commands of clients, with what all of them share."""

    settings: SshSettings
    facade: Facade
    keys: Keys
    shares: Shares
    refs: AskedRefs = field(default_factory=AskedRefs)

    async def run(self, fingerprint: str, text: str, descriptors: tuple[int, int, int]) -> int:
        """Run a client's command on its standard descriptors, and return its exit status."""
        stdin, stdout, stderr = descriptors
        began = time.monotonic()
        try:
            status = await self._run(fingerprint, text, Input(stdin), Output(stdout, _STALL_SECONDS))
            message = ""
        except Refused as refused:
            # A shell's exit status; a status of HTTP is none.
            status = refused.status if refused.status <= _MAX_EXIT_STATUS else 1
            message = refused.message
        except NotFound:
            status, message = 1, "your SSH key is not known any more"
        except ServiceError as error:
            status, message = 1, error.message
        except (ProtocolError, CutShort, Disconnected) as error:
            status, message = 1, str(error)
        except Exception:
            _log.exception("a session over SSH failed")
            status, message = 1, "an internal error; try again"
        if message:
            await _tell(stderr, message)
        _log.info("ssh session", fingerprint=fingerprint, status=status, seconds=round(time.monotonic() - began, 3))
        return status

    async def _run(self, fingerprint: str, text: str, source: Input, sink: Output) -> int:
        offered = (Program.AUTHENTICATE, *([Program.TRANSFER] if self.settings.ssh_transfer else []))
        command = parse_command(text, offered)
        token = await self.keys.token(fingerprint)
        with self.shares.taken(token.user_name):
            return await self._run_as(fingerprint, token, command, source, sink)

    async def _run_as(
        self, fingerprint: str, token: SessionToken, command: Command, source: Input, sink: Output
    ) -> int:
        repository = Repository(self.facade, command.repository, token.user_name, token.secret)
        if command.program is Program.AUTHENTICATE:
            answer = {
                "href": f"{self.facade.public_url}/{command.repository}",
                "header": {"Authorization": f"Bearer {token.secret}"},
                "expires_in": self.settings.action_seconds,
            }
            await sink.write(json.dumps(answer).encode() + b"\n")
            return 0
        # Before the first answer, a client can still be told on its standard error why nothing works.
        status, _ = await repository.call("GET", "locks", params={"limit": "1"}, accepted=(_UNAUTHORIZED, 403, 404))
        if status == _UNAUTHORIZED:
            # Somebody has removed the token, such as a restored database.
            self.keys.forget(token)
            token = await self.keys.token(fingerprint)
            repository = Repository(self.facade, command.repository, token.user_name, token.secret)
        reader = Reader(source, self.settings.ssh_idle_seconds)
        await Transfer(repository, self.refs, command.operation, reader, Writer(sink)).run()
        return 0


async def _tell(descriptor: int, message: str) -> None:
    try:
        # It goes to a terminal, and may quote what others have named.
        line = "".join(character if character.isprintable() else " " for character in message)
        await Output(descriptor, 1.0).write(f"towpath: {line}\n".encode(errors="replace"))
    except (Disconnected, OSError):
        return
