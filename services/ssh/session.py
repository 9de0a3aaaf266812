"""One command of one client, from its request to its exit status."""

import json
import time
from dataclasses import dataclass, field

from services.common.errors import NotFound, ServiceError
from services.common.observability.logs import get_logger
from services.ssh.asked_refs import AskedRefs
from services.ssh.command import Command, Program, parse_command
from services.ssh.descriptors import Input, Output
from services.ssh.errors import Disconnected, ProtocolError, Refused, TurnedAway
from services.ssh.interface import Facade, Repository
from services.ssh.metrics import IN_FLIGHT, OTHER, SESSIONS, TURNED_AWAY
from services.ssh.objects import CutShort
from services.ssh.pkt_line import Reader, Writer
from services.ssh.settings import SshSettings
from services.ssh.shares import Shares
from services.ssh.tokens import Keys, SessionToken
from services.ssh.transfer import Transfer

_MAX_EXIT_STATUS = 255
_STALL_SECONDS = 120.0
_UNAUTHORIZED, _UNAVAILABLE = 401, 503
_UNKNOWN_KEY = "your SSH key is not known any more"

_log = get_logger(__name__)


@dataclass(frozen=True)
class _End:
    """The end of a session: the result that is counted, the exit status, and the message for the user."""

    result: str
    status: int = 1
    message: str = ""


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
        told: dict[str, object] = {"fingerprint": fingerprint}
        # What stays true if the session is cancelled: its client is gone, or the service stops.
        end = _End("disconnected")
        try:
            with IN_FLIGHT.track_inprogress():
                end = await self._ended(fingerprint, text, Input(stdin), Output(stdout, _STALL_SECONDS), told)
                if end.message:
                    await _tell(stderr, end.message)
        finally:
            SESSIONS.labels(told.get("program", OTHER), end.result).inc()
            seconds = round(time.monotonic() - began, 3)
            _log.info("ssh session", **told, result=end.result, status=end.status, seconds=seconds)
        return end.status

    async def _ended(self, fingerprint: str, text: str, source: Input, sink: Output, told: dict[str, object]) -> _End:
        """Run a command to its end, and add what is known of it to what the log is told."""
        try:
            await self._run(fingerprint, text, source, sink, told)
        except TurnedAway as error:
            return _End(TURNED_AWAY, 1, error.message)
        except Refused as error:
            # A shell's exit status; a status of HTTP is none.
            return _End("refused", error.status if error.status <= _MAX_EXIT_STATUS else 1, error.message)
        except NotFound:
            return _End("refused", 1, _UNKNOWN_KEY)
        except ServiceError as error:
            return _End("failed", 1, error.message)
        except ProtocolError as error:
            return _End("refused", 1, str(error))
        except Disconnected as error:
            return _End("disconnected", 1, str(error))
        except CutShort as error:
            return _End("failed", 1, str(error))
        except Exception:
            _log.exception("a session over SSH failed")
            return _End("failed", 1, "an internal error; try again")
        return _End("completed", 0)

    async def _run(self, fingerprint: str, text: str, source: Input, sink: Output, told: dict[str, object]) -> None:
        offered = (Program.AUTHENTICATE, *([Program.TRANSFER] if self.settings.ssh_transfer else []))
        command = parse_command(text, offered)
        told |= {"program": str(command.program), "operation": command.operation, "repository": command.repository}
        token = await self.keys.token(fingerprint, command)
        told["user"] = token.user_name
        with self.shares.taken(token.user_name):
            await self._run_as(fingerprint, token, command, source, sink)

    async def _run_as(
        self, fingerprint: str, token: SessionToken, command: Command, source: Input, sink: Output
    ) -> None:
        if command.program is Program.AUTHENTICATE:
            answer = {
                "href": f"{self.facade.public_url}/{command.repository}",
                "header": {"Authorization": f"Bearer {token.secret}"},
                "expires_in": self.settings.action_seconds,
            }
            await sink.write(json.dumps(answer).encode() + b"\n")
            return

        async def renewed() -> str:
            nonlocal token
            try:
                token = await self.keys.renew(fingerprint, command, token)
            except NotFound as error:
                raise Refused(_UNAUTHORIZED, _UNKNOWN_KEY) from error
            except ServiceError as error:
                raise Refused(_UNAVAILABLE, error.message) from error
            return token.secret

        repository = Repository(self.facade, command.repository, token.user_name, token.secret, renewed)
        # Before the first answer, a client can still be told on its standard error why nothing works.
        await repository.call("GET", "locks", params={"limit": "1"}, accepted=(403, 404))
        reader = Reader(source, self.settings.ssh_idle_seconds)
        await Transfer(repository, self.refs, command.operation, reader, Writer(sink)).run()


async def _tell(descriptor: int, message: str) -> None:
    try:
        # It goes to a terminal, and may quote what others have named.
        line = "".join(character if character.isprintable() else " " for character in message)
        await Output(descriptor, 1.0).write(f"towpath: {line}\n".encode(errors="replace"))
    except (Disconnected, OSError):
        return
