"""What the examples share: a channel to a Towpath service, and what every call shows.

All of it comes from the environment, as secrets in arguments could be read by every user of the host:

TOWPATH_LOCKS_ADDRESS, TOWPATH_STORAGE_ADDRESS   `unix:PATH` or `HOST:PORT`; also --locks and --storage
TOWPATH_SERVICE_SECRET                           the secret between services; not needed on unix sockets
TOWPATH_TLS_CA, _CERTIFICATE, _KEY               PEM files, where the services speak mutual TLS
"""

import argparse
import json
import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import grpc

UNARY_SECONDS = 15
"""Long enough for a service that restarts meanwhile."""

REQUEST_ID = f"example-{uuid.uuid4().hex}"
"""Names this run in the log lines of all services."""

# Reading may be repeated as it is, and locking because it carries an idempotency key.
_REPEATABLE = [
    {"service": "towpath.access.v1.AccessService"},
    {"service": "towpath.locks.v1.LockService"},
    {"service": "towpath.storage.v1.StorageService", "method": "BatchStatObjects"},
]
_RETRIES = {
    "maxAttempts": 5,
    "initialBackoff": "0.2s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
_OPTIONS = [
    ("grpc.service_config", json.dumps({"methodConfig": [{"name": _REPEATABLE, "retryPolicy": _RETRIES}]})),
    # A page of 1,000 long paths is more than gRPC's own limit of 4 MiB.
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    # A peer that is gone without a word is noticed, also in the midst of a long stream.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
]


def address_argument(parser: argparse.ArgumentParser, service: str) -> None:
    """Add --locks or --storage, whose default is the environment's address of that service."""
    variable = f"TOWPATH_{service.upper()}_ADDRESS"
    default = os.environ.get(variable)
    help_text = f"unix:PATH or HOST:PORT; by default {variable}"
    parser.add_argument(f"--{service}", metavar="ADDRESS", default=default, required=not default, help=help_text)


def connect(address: str) -> grpc.Channel:
    """Return a channel, which connects and comes back by itself; the caller closes it."""
    ca = os.environ.get("TOWPATH_TLS_CA")
    if ca is None or address.startswith("unix:"):
        return grpc.insecure_channel(address, options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=Path(ca).read_bytes(),
        private_key=Path(os.environ["TOWPATH_TLS_KEY"]).read_bytes(),
        certificate_chain=Path(os.environ["TOWPATH_TLS_CERTIFICATE"]).read_bytes(),
    )
    return grpc.secure_channel(address, credentials, options=_OPTIONS)


def metadata(bearer: str | None = None) -> tuple[tuple[str, str], ...]:
    """Return what a call shows: the request id, and as bearer token the services' secret or what is given."""
    bearer = bearer or os.environ.get("TOWPATH_SERVICE_SECRET")
    authorization = (("authorization", f"Bearer {bearer}"),) if bearer else ()
    return (("x-request-id", REQUEST_ID), *authorization)


def run(main: Callable[[], None]) -> None:
    """Run an example; a call that fails ends it with one line and exit status 1."""
    try:
        main()
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()} (request {REQUEST_ID})")
