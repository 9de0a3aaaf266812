"""Lock a path of a repository, or tell who holds it.

    export TOWPATH_LOCKS_ADDRESS=127.0.0.1:9002 TOWPATH_SERVICE_SECRET=... TOWPATH_TOKEN=...
    python take_lock.py demo/assets scenes/opening.blend --ref refs/heads/main

The exit status is 0 where the path is now locked, and 3 where somebody holds it already.
"""

import argparse
import sys
import uuid

import grpc
from towpath.locks.v1 import lock_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2_grpc import LockServiceStub

import access
from connection import UNARY_SECONDS, connect, metadata, run
from status_details import detail, reason


def main() -> None:
    """Do it."""
    parser = argparse.ArgumentParser(description="Lock a path of a repository.")
    access.arguments(parser)
    parser.add_argument("path", help="relative, with / between its parts")
    options = parser.parse_args()
    with connect(options.locks) as channel:
        caller = access.check(channel, options.repository, access.WRITE, ref=options.ref)
        request = pb.CreateLockRequest(
            repository_id=caller.repository_id,
            user_id=caller.user_id,
            path=options.path,
            # One key for one intention: a repeat of this call answers with the lock that the first one made.
            idempotency_key=uuid.uuid4().hex,
        )
        stub = LockServiceStub(channel)
        try:
            answer = stub.CreateLock(request, timeout=UNARY_SECONDS, metadata=metadata(), wait_for_ready=True)
        except grpc.RpcError as error:
            if reason(error) != "PATH_LOCKED":
                raise
            standing = detail(error, pb.Lock())
            print(f"{standing.path} is locked by {standing.owner_name} since {standing.locked_at.ToJsonString()}")
            sys.exit(3)
        print(f"{answer.lock.path} is now locked by {answer.lock.owner_name}, lock {answer.lock.id}")


if __name__ == "__main__":
    run(main)
