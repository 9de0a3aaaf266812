"""The application context: the objects that all endpoints share."""

import asyncio
import time
from dataclasses import dataclass

from starlette.requests import Request

from services.common.address_rates import AddressRates
from services.facade.auth.access_cache import AccessCache
from services.facade.auth.action_tokens import ActionGrant, ActionTokens
from services.facade.auth.authorizer import Authorizer
from services.facade.auth.revocation_watch import RevocationState
from services.facade.auth.sessions import SessionCookies
from services.facade.auth.transfer_watch import TransferWatch
from services.facade.clients.services import ServiceClients
from services.facade.middleware.concurrency_limit import Slots
from services.facade.objects.actions import ActionFactory
from services.facade.objects.shared_disk import SharedDisk
from services.facade.objects.shared_memory import SharedMemory
from services.facade.settings import FacadeSettings
from services.facade.web.forwarded_headers import Networks, client_network, client_of, origin

ObjectKey = tuple[int, str, int]
"""An object that a repository holds: the repository's id, the oid, and the size in bytes."""


@dataclass(frozen=True)
class AppContext:
    """The settings of this process, its clients, the objects made from both, and the event that stops it."""

    settings: FacadeSettings
    clients: ServiceClients
    authorizer: Authorizer
    changes: RevocationState
    tokens: ActionTokens
    sessions: SessionCookies
    committed: AccessCache[ObjectKey, bool]
    """The objects that this facade has seen committed in the last minute, each with True."""
    shared_disk: SharedDisk | None
    shared_memory: SharedMemory | None
    watches: Slots
    """The slots of the clients that watch the events of locks."""
    history_pages: Slots
    """The slots of the requests that read a page of the lock history."""
    strangers: AddressRates
    trusted: Networks
    stop: asyncio.Event

    def network_of(self, request: Request) -> str | None:
        """Return the network of the client that makes a request, as `client_network` does."""
        return client_network(client_of(request.scope).address, self.trusted)

    def transfer_watch(self, grant: ActionGrant) -> TransferWatch:
        """Return the watch of a transfer that begins."""
        return TransferWatch(self.authorizer, self.changes, grant)

    def action_factory(self, request: Request) -> ActionFactory:
        """Return the factory of the actions that answer this request. Raises the errors of `origin`."""
        return ActionFactory(
            self.tokens,
            origin=origin(self.settings.public_url, client_of(request.scope)),
            seconds=self.settings.action_seconds,
            now=int(time.time()),
        )


def context_of(request: Request) -> AppContext:
    """Return the context of the application that serves a request."""
    context: AppContext = request.scope["state"]["context"]
    return context
