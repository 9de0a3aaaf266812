"""AdminService: tokens."""

from collections.abc import Sequence
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import admin_service_pb2 as pb

from services.common.errors import InvalidArgument, NotFound, Reason
from services.locks.access.request_limits import set_limit_of_token
from services.locks.access.tokens import ListedToken, create_token, list_tokens, new_secret, revoke_token, token_hash
from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.messages import moment_of, token_message
from services.locks.api.rate_messages import changed_limit_of, limit_of
from services.locks.models import Token, User
from services.locks.validation import check_name


class TokenHandlers(Handlers):
    """Creates, lists, changes and revokes tokens."""

    @administrator_only
    async def CreateToken(self, request: pb.CreateTokenRequest, _administrator: User) -> pb.CreateTokenResponse:
        """Create a token and return its secret; no later call can return it."""
        check_name("name", request.name)
        expires_at = _moment(request.expires_at) if request.HasField("expires_at") else None
        limit = limit_of(request.rate)
        secret = new_secret()

        async def work(connection: AsyncConnection) -> Token:
            user = await self.find_user(connection, "user_name", request.user_name)
            return await create_token(
                connection,
                user_id=user.id,
                name=request.name,
                token_hash=token_hash(secret),
                expires_at=expires_at,
                limit=limit,
            )

        token = await self.database.run(work)
        return pb.CreateTokenResponse(token=token_message(token, request.user_name), secret=secret)

    @administrator_only
    async def ListTokens(self, request: pb.ListTokensRequest, _administrator: User) -> pb.ListTokensResponse:
        """Return a user's tokens, ordered by name."""

        async def work(connection: AsyncConnection) -> Sequence[ListedToken]:
            user = await self.find_user(connection, "user_name", request.user_name)
            return await list_tokens(connection, user.id)

        tokens = await self.database.run(work)
        return pb.ListTokensResponse(
            tokens=(
                token_message(token, request.user_name, last_used_at=used_at, issuer=issuer)
                for token, used_at, issuer in tokens
            )
        )

    @administrator_only
    async def UpdateToken(self, request: pb.UpdateTokenRequest, _administrator: User) -> pb.UpdateTokenResponse:
        """Change a token's limit of requests."""
        check_name("name", request.name)
        limit = changed_limit_of(request)

        async def work(connection: AsyncConnection) -> Token:
            user = await self.find_user(connection, "user_name", request.user_name)
            return await set_limit_of_token(connection, user, request.name, limit)

        token = await self.database.run(work)
        return pb.UpdateTokenResponse(token=token_message(token, request.user_name))

    @administrator_only
    async def RevokeToken(self, request: pb.RevokeTokenRequest, _administrator: User) -> pb.RevokeTokenResponse:
        """Revoke a token."""
        check_name("name", request.name)

        async def work(connection: AsyncConnection) -> Token:
            user = await self.find_user(connection, "user_name", request.user_name)
            token = await revoke_token(connection, user_id=user.id, name=request.name)
            if token is None:
                raise NotFound(Reason.TOKEN_NOT_FOUND, f"{request.user_name} has no token {request.name}")
            return token

        token = await self.database.run(work)
        return pb.RevokeTokenResponse(token=token_message(token, request.user_name))


def _moment(message: Timestamp) -> datetime:
    """Return the time of an expiry. Raises `InvalidArgument` unless it is in the future."""
    moment = moment_of("expires_at", message)
    if moment <= datetime.now(UTC):
        raise InvalidArgument(Reason.INVALID_FIELD, "expires_at: expected a time in the future")
    return moment
