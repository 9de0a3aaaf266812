"""AdminService: webhooks and their deliveries."""

from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import admin_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.hook_messages import delivery_message, hook_message, new_hook_of
from services.locks.audit.event_types import HOOK_REDELIVERED
from services.locks.audit.recorder import record
from services.locks.ids import parse_cursor
from services.locks.models import User
from services.locks.validation import check_repository_name
from services.locks.webhooks.deliveries import list_deliveries, redeliver
from services.locks.webhooks.hooks import add_hook, list_hooks, remove_hook


class HookHandlers(Handlers):
    """Adds, lists and removes webhooks, and lists and repeats deliveries."""

    @administrator_only
    async def CreateHook(self, request: pb.CreateHookRequest, _administrator: User) -> pb.CreateHookResponse:
        """Add a hook; its secret is in this answer only."""
        if request.repository:
            check_repository_name("repository", request.repository)
        added = await add_hook(self.database, new_hook_of(request))
        return pb.CreateHookResponse(hook=hook_message(added), secret=added.hook.secret)

    @administrator_only
    async def ListHooks(self, request: pb.ListHooksRequest, _administrator: User) -> pb.ListHooksResponse:
        """Return all hooks, or those that hear of one repository."""
        repository_id = (await self.find_repository(request.repository)).id if request.repository else None
        hooks = await self.database.run(partial(list_hooks, repository_id=repository_id))
        return pb.ListHooksResponse(hooks=map(hook_message, hooks))

    @administrator_only
    async def DeleteHook(self, request: pb.DeleteHookRequest, _administrator: User) -> pb.DeleteHookResponse:
        """Remove a hook with its deliveries."""
        await self.database.run(partial(remove_hook, hook_id=request.id))
        return pb.DeleteHookResponse()

    @administrator_only
    async def ListHookDeliveries(
        self, request: pb.ListHookDeliveriesRequest, _administrator: User
    ) -> pb.ListHookDeliveriesResponse:
        """Return a page of a hook's deliveries."""
        deliveries, more = await self.database.run(
            partial(
                list_deliveries,
                hook_id=request.hook_id,
                before=parse_cursor(request.cursor),
                limit=self.settings.page_size(request.limit),
                failed=request.failed,
            )
        )
        return pb.ListHookDeliveriesResponse(
            deliveries=map(delivery_message, deliveries), next_cursor=str(deliveries[-1].id) if more else ""
        )

    @administrator_only
    async def RedeliverHook(self, request: pb.RedeliverHookRequest, _administrator: User) -> pb.RedeliverHookResponse:
        """Queue one delivery anew, or all that have ended without success."""
        has_id = request.HasField("delivery_id")
        if not has_id and not request.failed:
            raise InvalidArgument(Reason.INVALID_FIELD, "what: expected delivery_id, or failed to be true")

        async def work(connection: AsyncConnection) -> int:
            count = await redeliver(
                connection, hook_id=request.hook_id, delivery_id=request.delivery_id if has_id else None
            )
            queued = {"delivery_id": request.delivery_id} if has_id else {"count": count}
            await record(connection, HOOK_REDELIVERED, subject=f"hook {request.hook_id}", after=queued)
            return count

        count = await self.database.run(work)
        return pb.RedeliverHookResponse(count=count)
