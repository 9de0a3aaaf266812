"""List the locks of a repository, page by page.

    export TOWPATH_LOCKS_ADDRESS=127.0.0.1:9002 TOWPATH_SERVICE_SECRET=... TOWPATH_TOKEN=...
    python list_locks.py demo/assets

It prints one line for each lock: its path, its owner's name, when it was taken, its id.
"""

import argparse
from collections.abc import Iterator

import grpc
from towpath.locks.v1 import lock_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2_grpc import LockServiceStub

import access
from connection import UNARY_SECONDS, connect, metadata, run


def locks_of(channel: grpc.Channel, repository_id: int) -> Iterator[pb.Lock]:
    """Yield the locks of all pages, oldest first. Locks that come and go meanwhile do not shift a page."""
    stub = LockServiceStub(channel)
    request = pb.ListLocksRequest(repository_id=repository_id)
    while True:
        page = stub.ListLocks(request, timeout=UNARY_SECONDS, metadata=metadata(), wait_for_ready=True)
        yield from page.locks
        if not page.next_cursor:
            return
        request.cursor = page.next_cursor


def main() -> None:
    """Do it."""
    parser = argparse.ArgumentParser(description="List the locks of a repository.")
    access.arguments(parser)
    options = parser.parse_args()
    with connect(options.locks) as channel:
        caller = access.check(channel, options.repository, access.READ)
        for lock in locks_of(channel, caller.repository_id):
            print(lock.path, lock.owner_name, lock.locked_at.ToJsonString(), lock.id, sep="\t")


if __name__ == "__main__":
    run(main)
