"""A probe for containers: `python -m services.common.health ADDRESS SERVICE`, or with the URL of a facade's `/readyz`.

It imports little, neither settings nor logs, because it runs every few seconds beside a service. From the environment
it reads only the paths of the TLS files.
"""

import http.client
import os
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from services.common.secret_files import secrets_folder, value_of

_SECONDS = 3.0
_USAGE = "usage: python -m services.common.health ADDRESS SERVICE [NAME] | http://HOST:PORT/PATH"


def probe_grpc(address: str, service: str, name: str = "") -> str:
    """Return the status that the server at the address reports for a service, in capitals, or why it reports none.

    If a certificate is configured, the probe presents it, and requires the server's certificate to be for `name`, by
    default the host of the address.
    """
    import grpc  # imported late because a probe over HTTP does not need it
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    from services.common.rpc.options import channel_options, is_local
    from services.common.rpc.tls import FILES, Tls

    tls = Tls.read({name: _tls_file(name) for name in FILES})
    options: list[tuple[str, str | int]] = [*channel_options(address)]
    if name:
        options.append(("grpc.ssl_target_name_override", name))
    if tls is None or is_local(address):
        channel = grpc.insecure_channel(address, options=options)
    else:
        channel = grpc.secure_channel(address, tls.for_channel(), options=options)
    with channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its type stubs lack its methods
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=_SECONDS)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


def _tls_file(setting: str) -> Path | None:
    """Return the path that this setting would have; see `services.common.settings`."""
    if path := os.environ.get(f"TOWPATH_{setting.upper()}"):
        return Path(path)
    file = secrets_folder() / f"towpath_{setting}"
    return Path(value_of(file, file.read_text())) if file.is_file() else None


def probe_http(url: str) -> str:
    """Return the HTTP status of a GET of the URL, or why there is no answer.

    The certificate of an https address may be of any name and authority, because the probe asks its own host.
    """
    parts = urlsplit(url)
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            parts.netloc, timeout=_SECONDS, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=_SECONDS)
    try:
        connection.request("GET", parts.path or "/")
        return str(connection.getresponse().status)
    except (OSError, http.client.HTTPException) as error:
        return f"no answer: {error!r}"
    finally:
        connection.close()


def main(arguments: Sequence[str]) -> int:
    """Print one line, and return the exit status: 0 if the service serves, 1 if not, 2 if the arguments are wrong."""
    match arguments:
        case [url] if url.startswith(("http://", "https://")):
            state, good = probe_http(url), "200"
        case [address, service, *rest] if len(rest) < 2:
            try:
                state, good = probe_grpc(address, service, *rest), "SERVING"
            except (OSError, ValueError) as error:
                state, good = str(error), ""
        case _:
            sys.stderr.write(f"{_USAGE}\n")
            return 2
    sys.stdout.write(f"{arguments[0]}: {' '.join(state.split())}\n")
    return 0 if state == good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
