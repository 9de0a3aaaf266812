"""Write a file as an object of a repository.

    export TOWPATH_LOCKS_ADDRESS=127.0.0.1:9002 TOWPATH_STORAGE_ADDRESS=127.0.0.1:9001
    export TOWPATH_SERVICE_SECRET=... TOWPATH_TOKEN=...
    python write_object.py demo/assets scene.blend --ref refs/heads/main

It prints the object's oid and size once the object is whole and durable. The file is read twice and never held whole.
"""

import argparse
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceStub

import access
from connection import address_argument, connect, metadata, run

ATTEMPTS = 5
CHUNK_BYTES = 1024 * 1024
"""The most that one message may carry."""
STREAM_SECONDS = 3600
"""As long as the largest object may take; the service cuts off a stream that is silent for a minute."""


def messages(header: pb.WriteObjectRequest.Header, path: Path) -> Iterator[pb.WriteObjectRequest]:
    """Yield the header, and then the file's bytes."""
    yield pb.WriteObjectRequest(header=header)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield pb.WriteObjectRequest(data=chunk)


def write(channel: grpc.Channel, repository_id: int, path: Path) -> pb.Object:
    """Write the file, from its first byte again where the service went away, and return the object's record."""
    with path.open("rb") as file:
        oid = hashlib.file_digest(file, "sha256").hexdigest()
    header = pb.WriteObjectRequest.Header(repository_id=repository_id, oid=oid, size=path.stat().st_size)
    stub = StorageServiceStub(channel)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return stub.WriteObject(
                messages(header, path), timeout=STREAM_SECONDS, metadata=metadata(), wait_for_ready=True
            ).object
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE or attempt == ATTEMPTS:
                raise
            time.sleep(0.2 * 2**attempt)
    raise AssertionError("the last attempt returns or raises")


def main() -> None:
    """Do it."""
    parser = argparse.ArgumentParser(description="Write a file as an object of a repository.")
    access.arguments(parser)
    address_argument(parser, "storage")
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    with connect(options.locks) as locks, connect(options.storage) as storage:
        caller = access.check(locks, options.repository, access.WRITE, ref=options.ref)
        written = write(storage, caller.repository_id, options.file)
        print(written.oid, written.size)


if __name__ == "__main__":
    run(main)
