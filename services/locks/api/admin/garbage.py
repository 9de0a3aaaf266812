"""AdminService: collections of garbage."""

from collections.abc import AsyncIterator

from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2 as storage

from services.locks.api.admin.base import Context, Handlers, administrator_only
from services.locks.api.garbage import collect_garbage, first_of, teller
from services.locks.api.token_callers import token_caller
from services.locks.audit.recorder import ADMIN, acting
from services.locks.models import User


class GarbageHandlers(Handlers):
    """Collects garbage."""

    @administrator_only
    async def TakeCollectionTurn(
        self, request: pb.TakeCollectionTurnRequest, _administrator: User
    ) -> pb.TakeCollectionTurnResponse:
        """Take, keep or end the turn of one of several callers."""
        repository = await self.find_repository(request.repository)
        turn = await self.storage.call(
            self.storage.objects.TakeCollectionTurn,
            storage.TakeCollectionTurnRequest(
                repository_id=repository.id,
                holder=request.holder,
                every_seconds=request.every_seconds,
                outcome=request.outcome,
            ),
        )
        return pb.TakeCollectionTurnResponse(is_taken=turn.is_taken, wait_seconds=turn.wait_seconds)

    async def CollectGarbage(  # type: ignore[override] # stubs know only generators of responses
        self, request_iterator: AsyncIterator[pb.CollectGarbageRequest], context: Context
    ) -> None:
        """Remove what a list does not retain; the audit log has one event for each call that removes something."""
        administrator = token_caller()
        requests = aiter(request_iterator)
        first, arrived = await first_of(requests)
        asked = first.header
        repository = await self.find_repository(asked.repository)
        header = storage.CollectGarbageRequest.Header(
            repository_id=repository.id, terms=asked.terms, reason=asked.reason, removed_by=administrator.name
        )
        with acting(administrator.name, ADMIN):
            await collect_garbage(
                self.database,
                self.storage,
                header,
                requests,
                arrived=arrived,
                repository=repository.name,
                tell=teller(context, pb.CollectGarbageResponse),
            )
