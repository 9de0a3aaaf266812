"""AccessService: what users may read, and their own tokens."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import access_service_pb2 as pb

from services.common.rpc.log_fields import add_log_fields
from services.locks.access.own_tokens import check_lifetime, end_token, make_token
from services.locks.access.readable import list_readable
from services.locks.access.tokens import ListedToken, check_valid, list_tokens, new_secret, token_hash
from services.locks.access.users import name_of
from services.locks.api.access_base import AccessHandlers
from services.locks.api.messages import readable_message, user_token_message
from services.locks.api.name_pages import PAGE_DEFAULT, name_page
from services.locks.audit.recorder import FACADE, acting
from services.locks.validation import check_name, check_new_name, is_repository_name

_MAX_REPOSITORIES = 100

_Result = TypeVar("_Result")


class AccountHandlers(AccessHandlers):
    """Lists the repositories of users, and lists, makes and ends their tokens."""

    async def ListUserRepositories(
        self, request: pb.ListUserRepositoriesRequest, _context: object
    ) -> pb.ListUserRepositoriesResponse:
        """Return a page of the repositories that a user may read, or the one that the request names."""
        page = name_page(
            request.cursor,
            request.limit,
            default=_MAX_REPOSITORIES,
            most=_MAX_REPOSITORIES,
            is_cursor=is_repository_name,
        )
        finding = partial(
            list_readable,
            user_id=request.user_id,
            token_id=request.token_id,
            after=page.after,
            limit=page.asked,
            repository_id=request.repository_id or None,
        )
        found = await self.database.run(finding)
        self._record_use(request.token_id)
        repositories, cursor = page.cut(found, lambda repository: repository.name)
        return pb.ListUserRepositoriesResponse(repositories=map(readable_message, repositories), next_cursor=cursor)

    async def ListUserTokens(self, request: pb.ListUserTokensRequest, _context: object) -> pb.ListUserTokensResponse:
        """Return a page of a user's own tokens."""
        page = name_page(request.cursor, request.limit, default=PAGE_DEFAULT)

        async def work(connection: AsyncConnection) -> list[ListedToken]:
            if request.token_id:
                await check_valid(connection, token_id=request.token_id, user_id=request.user_id)
            return list(await list_tokens(connection, request.user_id, after=page.after, limit=page.asked))

        found = await self.database.run(work)
        self._record_use(request.token_id)
        tokens, cursor = page.cut(found, lambda listed: listed.token.name)
        messages = (user_token_message(token, last_used_at=used_at, issuer=issuer) for token, used_at, issuer in tokens)
        return pb.ListUserTokensResponse(tokens=messages, next_cursor=cursor)

    async def CreateUserToken(self, request: pb.CreateUserTokenRequest, _context: object) -> pb.CreateUserTokenResponse:
        """Make a token for a user and return its secret; no later call can return it."""
        check_new_name("name", request.name)
        check_lifetime("expires_in_seconds", request.expires_in_seconds)
        secret = new_secret()
        making = partial(
            make_token,
            user_id=request.user_id,
            token_id=request.token_id,
            name=request.name,
            token_hash=token_hash(secret),
            seconds=request.expires_in_seconds,
        )
        token = await self._run_as(request.user_id, making)
        self._record_use(request.token_id)
        return pb.CreateUserTokenResponse(token=user_token_message(token), secret=secret)

    async def RevokeUserToken(self, request: pb.RevokeUserTokenRequest, _context: object) -> pb.RevokeUserTokenResponse:
        """End a token of a user."""
        check_name("name", request.name)
        ending = partial(end_token, user_id=request.user_id, token_id=request.token_id, name=request.name)
        token = await self._run_as(request.user_id, ending)
        return pb.RevokeUserTokenResponse(token=user_token_message(token))

    async def _run_as(self, user_id: int, work: Callable[[AsyncConnection], Awaitable[_Result]]) -> _Result:
        """Run a transaction whose audit events name a user. Raises `NotFound` (USER_NOT_FOUND)."""
        name = await self.database.run(partial(name_of, user_id=user_id))
        add_log_fields(user=name)
        with acting(name, FACADE):
            return await self.database.run(work)

    def _record_use(self, token_id: int) -> None:
        if token_id:
            self.uses.record(token_id)
