"""What every endpoint works with."""

import asyncio
import time
from dataclasses import dataclass

from starlette.requests import Request

from services.facade.auth.access_cache import Remembered
from services.facade.auth.action_tokens import ActionTokens
from services.facade.auth.authorizer import Access
from services.facade.clients.services import Peers
from services.facade.objects.actions import ActionMaker, origin
from services.facade.objects.shared_disk import SharedDisk
from services.facade.objects.shared_memory import SharedMemory
from services.facade.settings import FacadeSettings
from services.facade.web.forwarded_headers import outside_of

Held = tuple[int, str, int]
"""An object that a repository holds: the repository's id, the oid, and the size in bytes."""


@dataclass(frozen=True)
class Facade:
    """The settings of this process, its channels to the inner services, what was made from both, and its end."""

    settings: FacadeSettings
    peers: Peers
    access: Access
    tokens: ActionTokens
    committed: Remembered[Held, bool]
    """The objects that this facade has seen committed in the last minute, each with True."""
    shared_disk: SharedDisk | None
    shared_memory: SharedMemory | None
    stop: asyncio.Event

    def action_maker(self, request: Request) -> ActionMaker:
        """Return what makes the actions for the answer to this request. Raises what `actions.origin` says."""
        return ActionMaker(
            self.tokens,
            origin=origin(self.settings.public_url, outside_of(request.scope)),
            seconds=self.settings.action_seconds,
            now=int(time.time()),
        )


def facade_of(request: Request) -> Facade:
    """Return the facade that serves a request."""
    facade: Facade = request.scope["state"]["facade"]
    return facade
