"""From a user's token and a repository's name to the ids that LockService and StorageService take.

Those two believe `user_id` and `repository_id`: whoever has the secret between services is trusted to have asked
AccessService first. A service that acts for users passes on their tokens; one that acts for itself has a user and a
token of its own (`towpath user add ci`, `towpath token add ci --name build`).
"""

import argparse
import os
from dataclasses import dataclass

import grpc
from towpath.access.v1 import access_service_pb2 as pb
from towpath.access.v1.access_service_pb2_grpc import AccessServiceStub

from connection import UNARY_SECONDS, address_argument, metadata

READ = pb.PERMISSION_READ
WRITE = pb.PERMISSION_WRITE


@dataclass(frozen=True)
class Access:
    """A user who may do what was asked for, and the repository."""

    user_id: int
    user_name: str
    repository_id: int


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `check` needs: the address of the lock service, the repository's name, and the ref."""
    address_argument(parser, "locks")
    parser.add_argument("repository", help="such as demo/assets")
    parser.add_argument("--ref", default="", help="such as refs/heads/main, where a grant is limited to refs")


def check(locks: grpc.Channel, repository: str, permission: pb.Permission.ValueType, *, ref: str = "") -> Access:
    """Ask who the user of TOWPATH_TOKEN is and whether it may do this.

    Raises grpc.RpcError: UNAUTHENTICATED, PERMISSION_DENIED, or NOT_FOUND where it may not know of the repository.
    """
    stub = AccessServiceStub(locks)
    token = pb.AuthenticateRequest(token=os.environ.get("TOWPATH_TOKEN", ""))
    user = stub.Authenticate(token, timeout=UNARY_SECONDS, metadata=metadata(), wait_for_ready=True)
    question = pb.CheckAccessRequest(user_id=user.user_id, repository=repository, ref=ref, permission=permission)
    granted = stub.CheckAccess(question, timeout=UNARY_SECONDS, metadata=metadata(), wait_for_ready=True)
    return Access(user.user_id, user.user_name, granted.repository_id)
