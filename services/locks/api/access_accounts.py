"""AccessService: what users may read, and their own tokens."""

from functools import partial

from towpath.access.v1 import access_service_pb2 as pb

from services.locks.access.own_tokens import check_lifetime, end_token, make_token
from services.locks.access.readable import list_readable
from services.locks.access.tokens import list_tokens, new_secret, token_hash
from services.locks.api.access_base import AccessHandlers
from services.locks.api.messages import readable_message, user_token_message
from services.locks.api.name_pages import PAGE_DEFAULT, name_page
from services.locks.audit.recorder import FACADE, acting
from services.locks.validation import check_name, check_new_name, is_repository_name

_MAX_REPOSITORIES = 100


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
        if request.token_id:
            self.uses.record(request.token_id)
        repositories, cursor = page.cut(found, lambda repository: repository.name)
        return pb.ListUserRepositoriesResponse(repositories=map(readable_message, repositories), next_cursor=cursor)

    async def ListUserTokens(self, request: pb.ListUserTokensRequest, _context: object) -> pb.ListUserTokensResponse:
        """Return a page of a user's own tokens."""
        page = name_page(request.cursor, request.limit, default=PAGE_DEFAULT)
        owner = await self.owner(request.credential)
        listing = partial(list_tokens, user_id=owner.user.id, after=page.after, limit=page.asked)
        found = await self.database.run(listing)
        tokens, cursor = page.cut(found, lambda listed: listed.token.name)
        messages = (user_token_message(token, last_used_at=used_at, issuer=issuer) for token, used_at, issuer in tokens)
        return pb.ListUserTokensResponse(tokens=messages, next_cursor=cursor)

    async def CreateUserToken(self, request: pb.CreateUserTokenRequest, _context: object) -> pb.CreateUserTokenResponse:
        """Make a token for a user and return its secret; no later call can return it."""
        check_new_name("name", request.name)
        check_lifetime("expires_in_seconds", request.expires_in_seconds)
        owner, secret = await self.owner(request.credential), new_secret()
        making = partial(
            make_token,
            user_id=owner.user.id,
            token_id=owner.token_id,
            name=request.name,
            token_hash=token_hash(secret),
            seconds=request.expires_in_seconds,
        )
        with acting(owner.user.name, FACADE):
            token = await self.database.run(making)
        return pb.CreateUserTokenResponse(token=user_token_message(token), secret=secret)

    async def RevokeUserToken(self, request: pb.RevokeUserTokenRequest, _context: object) -> pb.RevokeUserTokenResponse:
        """End a token of a user."""
        check_name("name", request.name)
        owner = await self.owner(request.credential)
        ending = partial(end_token, user_id=owner.user.id, token_id=owner.token_id, name=request.name)
        with acting(owner.user.name, FACADE):
            token = await self.database.run(ending)
        return pb.RevokeUserTokenResponse(token=user_token_message(token))
