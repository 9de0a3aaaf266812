"""The gRPC servicer of PushService."""

from functools import partial

from towpath.locks.v1 import push_service_pb2 as pb
from towpath.locks.v1.push_service_pb2_grpc import PushServiceServicer

from services.database.transactions import Database
from services.locks.api.messages import lock_message
from services.locks.api.token_callers import token_caller
from services.locks.locking.push import Push, check_push, find_lock_spaces, release_pushed
from services.locks.locking.pushers import Pusher
from services.locks.metrics import count_released


class PushServicer(PushServiceServicer):
    """Answers the calls of PushService."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def CheckPush(self, request: pb.CheckPushRequest, _context: object) -> pb.CheckPushResponse:
        """Return the locks that stand in the way of a push."""
        found = await self._database.run(partial(check_push, push=_push_of(request), caller=token_caller()))
        return pb.CheckPushResponse(
            blocking=map(lock_message, found.blocking),
            blocking_count=found.count,
            pusher_is_known=found.pusher_is_known,
        )

    async def FindLockSpaces(self, request: pb.FindLockSpacesRequest, _context: object) -> pb.FindLockSpacesResponse:
        """Return the lock space of each ref."""
        spaces, has_rules = await find_lock_spaces(
            self._database, repository=request.repository, refs=request.refs, caller=token_caller()
        )
        return pb.FindLockSpacesResponse(spaces=spaces, has_rules=has_rules)

    async def ReleasePushed(self, request: pb.ReleasePushedRequest, _context: object) -> pb.ReleasePushedResponse:
        """Release the pusher's locks on pushed paths."""
        released = await self._database.run(
            partial(release_pushed, push=_push_of(request), reason=request.reason, caller=token_caller())
        )
        for _ in released or ():
            count_released(forced=False)
        return pb.ReleasePushedResponse(locks=map(lock_message, released or ()), is_release_ref=released is not None)


def _push_of(request: pb.CheckPushRequest | pb.ReleasePushedRequest) -> Push:
    origin = request.origin if request.HasField("origin") else None
    pusher = Pusher(request.user_name, request.account_id, origin)
    return Push(request.repository, pusher, request.ref, request.paths)
