"""The gRPC servicer of PushService."""

from functools import partial
from typing import Any

import grpc
from towpath.locks.v1 import push_service_pb2 as pb
from towpath.locks.v1.push_service_pb2_grpc import PushServiceServicer

from services.common.rpc.interceptors import bearer_token
from services.common.rpc.log_fields import add_log_fields
from services.database.transactions import Database
from services.locks.access.token_uses import TokenUses
from services.locks.access.tokens import authenticate
from services.locks.api.messages import lock_message
from services.locks.locking.push import Push, check_push, find_lock_spaces, release_pushed
from services.locks.metrics import count_released
from services.locks.models import User

_Context = grpc.aio.ServicerContext[Any, Any]


class PushServicer(PushServiceServicer):
    """Answers the calls of PushService."""

    def __init__(self, database: Database, uses: TokenUses) -> None:
        self._database = database
        self._uses = uses

    async def CheckPush(self, request: pb.CheckPushRequest, context: _Context) -> pb.CheckPushResponse:
        """Return the locks that stand in the way of a push."""
        caller = await self._caller(context)
        found = await self._database.run(partial(check_push, push=_push_of(request), caller=caller))
        return pb.CheckPushResponse(
            blocking=map(lock_message, found.blocking),
            blocking_count=found.count,
            pusher_is_known=found.pusher_is_known,
        )

    async def FindLockSpaces(self, request: pb.FindLockSpacesRequest, context: _Context) -> pb.FindLockSpacesResponse:
        """Return the lock space of each ref."""
        caller = await self._caller(context)
        spaces, has_rules = await self._database.run(
            partial(find_lock_spaces, repository=request.repository, refs=request.refs, caller=caller)
        )
        return pb.FindLockSpacesResponse(spaces=spaces, has_rules=has_rules)

    async def ReleasePushed(self, request: pb.ReleasePushedRequest, context: _Context) -> pb.ReleasePushedResponse:
        """Release the pusher's locks on pushed paths."""
        caller = await self._caller(context)
        released = await self._database.run(
            partial(release_pushed, push=_push_of(request), reason=request.reason, caller=caller)
        )
        for _ in released or ():
            count_released(forced=False)
        return pb.ReleasePushedResponse(locks=map(lock_message, released or ()), is_release_ref=released is not None)

    async def _caller(self, context: _Context) -> User:
        user = (await authenticate(self._database, self._uses, bearer_token(context.invocation_metadata()))).user
        add_log_fields(user=user.name)
        return user


def _push_of(request: pb.CheckPushRequest | pb.ReleasePushedRequest) -> Push:
    return Push(request.repository, request.user_name, request.ref, request.paths)
