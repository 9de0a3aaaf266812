"""The client of the SSH service, which OpenSSH runs: `towpath ssh keys` and `towpath ssh serve`.

OpenSSH starts this for every connection, so that it imports little, runs without `site` (`python -I -S FILE`), and
leaves the work to the service. A session gets the descriptors of the client itself; no byte passes through it.
"""

import os
import shlex
import socket
import sys

SOCKET = "/run/towpath/ssh.sock"
"""The path of the service's socket, unless the command names another one."""
MAX_REQUEST_BYTES = 16 * 1024
"""The most bytes of a request; a request is one line of JSON."""

_ANSWER_SECONDS = 15.0
_MAX_ANSWER_BYTES = 64 * 1024
_USAGE = (
    "usage: towpath ssh keys [--socket PATH] USER FINGERPRINT   (AuthorizedKeysCommand: %u %f)\n"
    "       towpath ssh serve [--socket PATH] FINGERPRINT       (the forced command)\n"
)
_USAGE_STATUS = 2
_STANDARD = (0, 1, 2)


def run(arguments: list[str]) -> int:
    """Run one of the two commands, and return its exit status."""
    verb, *rest = arguments or [""]
    path = SOCKET
    if rest[:1] == ["--socket"] and len(rest) > 1:
        path, rest = rest[1], rest[2:]
    if verb == "keys" and len(rest) == 2:
        return _keys(path, rest[1])
    if verb == "serve" and len(rest) == 1:
        return _serve(path, rest[0])
    sys.stderr.write(_USAGE)
    return _USAGE_STATUS


def _keys(path: str, fingerprint: str) -> int:
    """Print the line of authorized_keys for the fingerprint's key; nothing if nobody has it."""
    answer = _ask(path, {"verb": "keys", "fingerprint": fingerprint}, ())
    if answer is None:
        return 1
    key = answer.get("public_key")
    if isinstance(key, str) and _is_of(key, fingerprint):
        command = [sys.executable, "-I", "-S", os.path.abspath(__file__), "serve", "--socket", path, fingerprint]  # noqa: PTH100 - pathlib takes long to import
        quoted = shlex.join(command).replace("\\", "\\\\").replace('"', '\\"')
        sys.stdout.write(f'restrict,command="{quoted}" {key}\n')
    return 0


def _serve(path: str, fingerprint: str) -> int:
    """Run the command that the client of SSH has asked for, on our standard descriptors."""
    command = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    answer = _ask(path, {"verb": "serve", "fingerprint": fingerprint, "command": command}, _STANDARD)
    status = answer.get("status") if answer is not None else 1
    return status if isinstance(status, int) else 1


def _is_of(key: str, fingerprint: str) -> bool:
    """Return whether the key has this fingerprint and is one line, so that no answer lets another key in."""
    import base64
    import hashlib

    kind, _, encoded = key.partition(" ")
    if not key.isprintable() or not kind or " " in encoded:
        return False
    digest = base64.b64encode(hashlib.sha256(base64.b64decode(encoded)).digest()).decode().rstrip("=")
    return fingerprint == f"SHA256:{digest}"


def _ask(path: str, request: dict[str, str], descriptors: tuple[int, ...]) -> "dict[str, object] | None":
    """Return the service's answer; None, with a message for the user, if there is none."""
    import json

    line = json.dumps(request).encode() + b"\n"
    if len(line) > MAX_REQUEST_BYTES:
        _fail("the command is too long")
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as service:
        try:
            service.settimeout(_ANSWER_SECONDS)
            service.connect(path)
            socket.send_fds(service, [line], descriptors)
            if descriptors:
                # The session lasts as long as its client wants; the end of the service ends it too.
                service.settimeout(None)
            answer = b""
            while not answer.endswith(b"\n") and len(answer) <= _MAX_ANSWER_BYTES:
                part = service.recv(_MAX_ANSWER_BYTES)
                if not part:
                    _fail("the SSH service has ended the session")
                    return None
                answer += part
        except OSError as error:
            _fail(f"the SSH service is not reached at {path}: {error.strerror or error}")
            return None
    found = json.loads(answer)
    return found if isinstance(found, dict) else None


def _fail(message: str) -> None:
    sys.stderr.write(f"towpath: {message}\n")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
