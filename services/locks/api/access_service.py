"""The gRPC servicer of AccessService."""

import math
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import grpc
from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import access_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2 as storage

from services.common.errors import NotFound, PermissionDenied, Reason, ServiceError, Unauthenticated
from services.common.rpc.log_fields import add_log_fields
from services.locks.access import revocation_feed
from services.locks.access.failed_logins import add_failures
from services.locks.access.grants import AccessGrant, FoundRepository, find_access
from services.locks.access.policy import Decision, Outcome, decide, decide_in_session
from services.locks.access.refusals import Refused
from services.locks.access.request_limits import find_limits, limits_of
from services.locks.access.tokens import TokenUser, TokenValidity, token_hash, validity_of
from services.locks.api.access_accounts import AccountHandlers
from services.locks.api.access_base import asker_of
from services.locks.api.access_sign_ins import SignInHandlers
from services.locks.api.audit_messages import refusals_of
from services.locks.api.garbage import collect_garbage, first_of, teller
from services.locks.api.messages import failed_logins_of, permission_of, wait_seconds_of
from services.locks.api.rate_messages import demands_of
from services.locks.audit.recorder import FACADE, acting
from services.locks.forges.roles import KnownToken
from services.locks.validation import is_repository_name

# Longest time that a facade may cache an answer: a longer one would gain little and hide uses of the token.
_MAX_KEPT_SECONDS = 300.0


class AccessServicer(AccountHandlers, SignInHandlers):
    """Answers the calls of AccessService."""

    async def Authenticate(self, request: pb.AuthenticateRequest, _context: object) -> pb.AuthenticateResponse:
        """Return the user of the token."""
        try:
            found = await self.sign_in.find(request.token, asker_of(request))
            if found is None or found.forge_id is not None:
                return await self._admit(request, found)
        except (Unauthenticated, NotFound) as error:
            self.refuse_credential(request.token, error)
            raise
        add_log_fields(user=found.user.name)
        limits = limits_of(*found.limits, default=self.rates.default_limit)
        return pb.AuthenticateResponse(
            user_id=found.user.id,
            user_name=found.user.name,
            keep_seconds=min(found.valid_seconds, _MAX_KEPT_SECONDS),
            token_id=found.token_id,
            scoped=found.scoped,
            administrator=found.user.administrator and found.is_of_person,
            refused_by_pages=found.is_of_session or found.is_of_program,
            requests_per_hour=limits.of_user,
            token_requests_per_hour=limits.of_token,
        )

    async def _admit(self, request: pb.AuthenticateRequest, found: TokenUser | None) -> pb.AuthenticateResponse:
        """Return the user of a forge's token, after a look-up there if one is due."""
        if found is None or found.forge_id is None:
            user, admitted = await self.forges.admit(request.repository, request.token, asker_of(request))
        else:
            known = KnownToken(found.token_id, found.forge_id, token_hash(request.token))
            user, admitted = found.user, await self.forges.renew(request.repository, request.token, known)
        add_log_fields(user=user.name)
        finding = partial(find_limits, token_id=admitted.token_id, default=self.rates.default_limit)
        limits = await self.database.run(finding)
        return pb.AuthenticateResponse(
            user_id=user.id,
            user_name=user.name,
            token_id=admitted.token_id,
            keep_seconds=min(admitted.keep_seconds, _MAX_KEPT_SECONDS),
            scoped=True,
            renewed_by_credential=True,
            requests_per_hour=limits.of_user,
            token_requests_per_hour=limits.of_token,
        )

    async def CheckAccess(self, request: pb.CheckAccessRequest, _context: object) -> pb.CheckAccessResponse:
        """Return the repository's id if the access is allowed, or raise the refusal."""
        permission = permission_of(request.permission)

        async def find(connection: AsyncConnection) -> FoundRepository | None:
            # An impossible name gets the same answer as the name of a repository that does not exist.
            if not is_repository_name(request.repository):
                return None
            return await find_access(
                connection, repository=request.repository, user_id=request.user_id, token_id=request.token_id
            )

        async def work(connection: AsyncConnection) -> tuple[FoundRepository | None, TokenValidity]:
            validity = TokenValidity(math.inf)
            if token_id := request.token_id:
                validity = await validity_of(connection, token_id=token_id, user_id=request.user_id)
            is_final = validity.seconds > 0 and validity.forge_id is None
            return await find(connection) if is_final else None, validity

        found, validity = await self.database.run(work)
        seconds = validity.seconds
        if seconds <= 0:
            ended = Unauthenticated(Reason.BAD_CREDENTIALS, "the token is not valid any more")
            # One that is gone has no hash.
            if validity.token_hash:
                ended.metadata["expired"] = "true"
            self._refuse(request, ended, ended.message, None)
            raise ended
        if (forge_id := validity.forge_id) is not None:
            known = KnownToken(request.token_id, forge_id, validity.token_hash)
            try:
                admitted = await self.forges.renew(request.repository, request.credential, known)
            except (Unauthenticated, NotFound) as error:
                self._refuse(request, error, error.message, None)
                raise
            seconds = admitted.keep_seconds
            found = await self.database.run(find)
        if request.token_id:
            self.uses.record(request.token_id)
        session = validity.session
        decision = (
            decide_in_session(session, repository_id=found.id, permission=permission) if session and found else None
        ) or decide(
            anonymous=request.user_id == 0,
            repository=found.access if found else None,
            permission=permission,
            ref=request.ref,
        )
        if found is None or decision.outcome is not Outcome.ALLOWED:
            refusal = _refusal(decision)
            self._refuse(request, refusal, decision.explanation, found)
            raise refusal
        keep_seconds = min(seconds, _MAX_KEPT_SECONDS) if request.token_id else 0
        return pb.CheckAccessResponse(repository_id=found.id, keep_seconds=keep_seconds)

    def _refuse(
        self, request: pb.CheckAccessRequest, error: ServiceError, rule: str, found: FoundRepository | None
    ) -> None:
        """Record the refusal of an access with the grants that were looked at."""
        self.refusals.record(
            Refused(
                error.reason,
                error.message,
                rule,
                "" if request.user_id else "anonymous",
                user_id=request.user_id,
                token_id=request.token_id,
                repository=request.repository,
                permission=permission_of(request.permission),
                ref=request.ref,
                grants=[_grant_fields(grant) for grant in found.records] if found else (),
            )
        )

    async def RecordRefusals(self, request: pb.RecordRefusalsRequest, _context: object) -> pb.RecordRefusalsResponse:
        """Record refusals of a facade."""
        for refused in refusals_of(request):
            self.refusals.record(refused)
        return pb.RecordRefusalsResponse()

    async def WatchAccess(self, request: pb.WatchAccessRequest, _context: object) -> pb.WatchAccessResponse:
        """Return the number of revocations once it differs from the caller's, or when the wait is over."""
        source, changes = await revocation_feed.watch(self.changes, request.known, wait_seconds_of(request))
        return pb.WatchAccessResponse(source=source, changes=changes)

    async def CountFailedLogins(
        self, request: pb.CountFailedLoginsRequest, _context: object
    ) -> pb.CountFailedLoginsResponse:
        """Add up bad credentials by address."""
        debts = await self.database.run(partial(add_failures, debts=failed_logins_of(request)))
        return pb.CountFailedLoginsResponse(debt_seconds=[debts[login.address] for login in request.failed])

    async def TakeRate(self, request: pb.TakeRateRequest, _context: object) -> pb.TakeRateResponse:
        """Take requests from the rates of users and tokens."""
        demands = demands_of(request)
        taken = await self.rates.take(demands)
        response = pb.TakeRateResponse()
        for holder in demands:
            response.taken.add(requests=taken[holder].requests, retry_seconds=taken[holder].retry_seconds)
        return response

    async def RetainObjects(  # type: ignore[override] # stubs know only generators of responses
        self, request_iterator: AsyncIterator[pb.RetainObjectsRequest], context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        """Collect garbage for a user of the HTTP interface."""
        requests = aiter(request_iterator)
        first, arrived = await first_of(requests)
        asked = first.header
        user_name, repository_id = await self._administrator_of(asked.repository, asked.credential)
        header = storage.CollectGarbageRequest.Header(
            repository_id=repository_id, terms=asked.terms, reason=asked.reason, removed_by=user_name
        )
        with acting(user_name, FACADE):
            await collect_garbage(
                self.database,
                self.storage,
                header,
                requests,
                arrived=arrived,
                repository=asked.repository,
                tell=teller(context, pb.RetainObjectsResponse),
            )

    async def _administrator_of(self, repository: str, credential: str) -> tuple[str, int]:
        """Return the name of the user of a credential who may administer a repository, and the repository's id.

        Raises the errors of `Authenticate` and `CheckAccess`.
        """
        caller = await self.Authenticate(pb.AuthenticateRequest(token=credential, repository=repository), None)
        asked = pb.CheckAccessRequest(
            user_id=caller.user_id,
            repository=repository,
            permission=pb.PERMISSION_ADMIN,
            token_id=caller.token_id,
            credential=credential,
        )
        return caller.user_name, (await self.CheckAccess(asked, None)).repository_id


def _grant_fields(grant: AccessGrant) -> dict[str, object]:
    return {
        "source": grant.source,
        "source_name": grant.source_name,
        "role": grant.role,
        "ref_patterns": list(grant.ref_patterns),
    }


def _refusal(decision: Decision) -> ServiceError:
    match decision.outcome:
        case Outcome.CREDENTIALS_REQUIRED:
            return Unauthenticated(Reason.CREDENTIALS_REQUIRED, "credentials are needed")
        case Outcome.NOT_FOUND:
            return NotFound(Reason.REPOSITORY_NOT_FOUND, "the repository does not exist, or you may not read it")
        case Outcome.ARCHIVED:
            return PermissionDenied(Reason.REPOSITORY_ARCHIVED, decision.explanation)
        case _:
            return PermissionDenied(Reason.ACCESS_DENIED, decision.explanation)
