"""Transfers in progress, which end with the access by which they began."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from starlette.types import Message, Receive

from services.common.errors import PermissionDenied, ServiceError
from services.common.observability.logs import get_logger
from services.facade.auth.action_tokens import ActionGrant
from services.facade.auth.authorizer import Authorizer
from services.facade.auth.revocation_watch import RevocationState
from services.facade.web.error_reasons import HttpReason

Piece = TypeVar("Piece")

_log = get_logger(__name__)


class TransferWatch:
    """Checks the grant of one transfer again after each revocation that this facade hears of.

    A transfer goes on while nobody knows, where its token has only expired, and where the repository was archived.
    """

    def __init__(self, authorizer: Authorizer, changes: RevocationState, grant: ActionGrant) -> None:
        self._authorizer = authorizer
        self._changes = changes
        self._grant = grant
        # No generation: a revocation may have come between the check of the request and now.
        self._checked = -1

    async def check(self) -> None:
        """Raise `PermissionDenied` (TOKEN_REFUSED) where the access was taken away."""
        if not self._changes.are_known() or self._changes.generation == self._checked:
            return
        generation = self._changes.generation
        try:
            await self._authorizer.check_grant(self._grant)
        except PermissionDenied as error:
            if _is_taken_away(error):
                raise
        except ServiceError as error:
            _log.info("the access of a transfer is not known", reason=error.reason, message=error.message)
            return
        self._checked = generation

    async def pieces(self, pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[Piece, None]:
        """Yield the pieces of a download. Raises their errors, and that of `check` instead of the next piece."""
        async with aclosing(pieces):
            async for piece in pieces:
                await self.check()
                yield piece

    def receive(self, receive: Receive) -> Receive:
        """Return what receives the body of an upload, and raises the error of `check` instead of its next part."""

        async def checked() -> Message:
            message = await receive()
            await self.check()
            return message

        return checked


def _is_taken_away(error: PermissionDenied) -> bool:
    has_expired = isinstance(error.__cause__, ServiceError) and "expired" in error.__cause__.metadata
    return error.reason == HttpReason.TOKEN_REFUSED and not has_expired
