"""Read a range of an object's bytes.

    export TOWPATH_LOCKS_ADDRESS=127.0.0.1:9002 TOWPATH_STORAGE_ADDRESS=127.0.0.1:9001
    export TOWPATH_SERVICE_SECRET=... TOWPATH_TOKEN=...
    python read_object.py demo/assets OID --offset 1000 --length 500 > part

The bytes go to the standard output, and the object's whole size to the standard error. When the service goes away in
between, the reading goes on at the byte where it stopped.
"""

import argparse
import sys
import time
from collections.abc import Iterator

import grpc
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceStub

import access
from connection import address_argument, connect, metadata, run

ATTEMPTS = 5
STREAM_SECONDS = 3600
"""As long as the largest object may take; keepalive notices a peer that is gone."""


def read(channel: grpc.Channel, request: pb.ReadObjectRequest) -> Iterator[bytes]:
    """Yield the bytes asked for. `request` is moved on with them, so that it always asks for what is left."""
    stub = StorageServiceStub(channel)
    failures = 0
    while True:
        try:
            answers = stub.ReadObject(request, timeout=STREAM_SECONDS, metadata=metadata(), wait_for_ready=True)
            for answer in answers:
                if answer.HasField("header"):
                    print(f"{answer.header.size} bytes in all", file=sys.stderr)
                    continue
                yield answer.data
                failures = 0
                request.offset += len(answer.data)
                if request.HasField("length"):
                    request.length -= len(answer.data)
        except grpc.RpcError as error:
            failures += 1
            if error.code() is not grpc.StatusCode.UNAVAILABLE or failures == ATTEMPTS:
                raise
            time.sleep(0.2 * 2**failures)
        else:
            return


def main() -> None:
    """Do it."""
    parser = argparse.ArgumentParser(description="Read a range of an object's bytes.")
    access.arguments(parser)
    address_argument(parser, "storage")
    parser.add_argument("oid", help="64 lower-case hexadecimal digits: the SHA-256 of the bytes")
    parser.add_argument("--offset", type=int, default=0, help="the first byte")
    parser.add_argument("--length", type=int, help="how many bytes at most; by default all to the end")
    options = parser.parse_args()
    with connect(options.locks) as locks, connect(options.storage) as storage:
        caller = access.check(locks, options.repository, access.READ)
        request = pb.ReadObjectRequest(
            repository_id=caller.repository_id, oid=options.oid, offset=options.offset, length=options.length
        )
        for data in read(storage, request):
            sys.stdout.buffer.write(data)


if __name__ == "__main__":
    run(main)
