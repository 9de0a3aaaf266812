"""The checks of a request, in the same order everywhere: Accept, credentials, rate, Content-Type, size, JSON, shape.

An anonymous caller without the permission is refused between credentials and Content-Type. The checks are plain
functions instead of FastAPI dependencies, because resolving dependencies took longer than the checks.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from urllib.parse import parse_qsl

from fastapi import Request

from services.common.errors import InvalidArgument, Reason, ResourceExhausted, Unauthenticated
from services.facade.auth.action_tokens import TOKEN_HEADER, ActionGrant, Operation
from services.facade.auth.authorizer import Permission
from services.facade.auth.caller import Caller
from services.facade.auth.request_rates import check_rate, check_stranger
from services.facade.context import AppContext, context_of
from services.facade.middleware.concurrency_limit import slot_of
from services.facade.web import request_body
from services.facade.web.error_reasons import HttpReason
from services.facade.web.forwarded_headers import client_of
from services.facade.web.media_types import Dialect, admits, for_error, negotiate
from services.facade.web.request_log import add_log_fields
from services.facade.web.schemas import Body

Shape = TypeVar("Shape", bound=Body)

_ALIAS = "/info/lfs"
_MAX_FIELDS = 100


def repository_name_in(base: str) -> str:
    """Return the repository's name in the path before an endpoint's own path (docs/protocol.md, "Base address").

    `NAME`, `NAME.git`, both with `/info/lfs` appended, and each of these four with one trailing slash are equivalent.
    Only the AccessService knows which names are valid: any other name is a repository that does not exist.
    """
    return base.removesuffix("/").removesuffix(_ALIAS).removesuffix(".git")


def repository_name(request: Request) -> str:
    """Return the name of the repository that the address names."""
    name = repository_name_in(request.path_params["repository"])
    add_log_fields(request.scope, repository=name)
    return name


def accepted_dialect(request: Request) -> Dialect:
    """Return the dialect of the answer. Raises `InvalidArgument` (NOT_ACCEPTABLE)."""
    headers = request.headers
    chosen = negotiate(headers.getlist("accept"), headers.get("content-type"))
    if chosen is None:
        raise InvalidArgument(HttpReason.NOT_ACCEPTABLE, "accept: expected one of the interface's media types")
    return chosen


async def authenticated_caller(request: Request, repository: str) -> Caller:
    """Return the caller of a request about a repository.

    Raises the errors of `Authorizer.authenticate` and `Slot.count_user`.
    """
    address, slot = client_of(request.scope).address, slot_of(request.scope)
    authorizer = context_of(request).authorizer
    shown = request.headers.getlist("authorization")
    caller = await authorizer.authenticate(shown, address, repository, slot.released)
    if name := caller.name:
        await slot.wait_for(partial(slot.count_user, name))
    add_log_fields(request.scope, user=name)
    request.scope["state"]["token_id"] = caller.token_id
    return caller


async def read_json(
    request: Request,
    model: type[Shape],
    *,
    max_bytes: int,
    may_be_empty: bool = False,
    plain_json: bool = False,
    check: Callable[[object], None] | None = None,
) -> Shape:
    """Return the JSON body; with `may_be_empty`, a missing body counts as an empty object.

    Raises, in this order, the errors of `request_body.check_content_type`, `read`, `Slot.take`, `parse`, `check` and
    `validate_body`.
    """
    settings = context_of(request).settings
    request_body.check_content_type(request.headers, plain_json=plain_json)
    async with slot_of(request.scope).released():
        data = await request_body.read(
            request.headers,
            request.receive,
            max_bytes=min(max_bytes, settings.body_bytes),
            seconds=settings.json_body_seconds,
        )
    if may_be_empty and not data:
        return request_body.validate_body(model, {})
    return await request_body.decoded(model, data, check)


async def read_form(request: Request, model: type[Shape], *, max_bytes: int) -> Shape:
    """Return the form in the body, as a body of this model.

    Raises, in this order, the errors of `request_body.check_form`, `read`, `parse_form` and `validate_body`.
    """
    request_body.check_form(request.headers)
    async with slot_of(request.scope).released():
        data = await request_body.read(
            request.headers,
            request.receive,
            max_bytes=max_bytes,
            seconds=context_of(request).settings.json_body_seconds,
        )
    return request_body.validate_body(model, request_body.parse_form(data))


@dataclass(frozen=True)
class Call:
    """A request whose caller is known."""

    context: AppContext
    repository: str
    dialect: Dialect
    caller: Caller

    async def authorize(self, permission: Permission, ref: str) -> int:
        """Return the repository's id. Raises the errors of `Authorizer.check`."""
        return await self.context.authorizer.check(self.caller, self.repository, permission, ref)


async def open_call(request: Request, *, is_counted: bool = True) -> Call:
    """Run the checks that precede all others: Accept, credentials, and the rate of the caller unless not `is_counted`.

    Changes and checks of locks are not counted: somebody whose builds use the rate up has to be able to lock a file,
    and clients neither repeat these after a 429, nor keep the check of locks (trap-44). A stranger may do neither, and
    over the rate gets the same 401 as always, without a question to the lock service.
    """
    repository = repository_name(request)
    dialect = accepted_dialect(request)
    call = Call(context_of(request), repository, dialect, await authenticated_caller(request, repository))
    if is_counted:
        await take_from_rate(request, call.caller)
    elif not call.caller.user_id:
        try:
            await take_from_rate(request, call.caller)
        except ResourceExhausted as error:
            raise Unauthenticated(Reason.CREDENTIALS_REQUIRED, "credentials are needed") from error
    return call


async def take_from_rate(request: Request, caller: Caller) -> None:
    """Take a request from the rates of its caller, or of its address where it shows no credentials.

    Raises the errors of `check_rate` and `check_stranger`.
    """
    context = context_of(request)
    if caller.user_id:
        await check_rate(context.clients.rates, caller)
    else:
        check_stranger(context.strangers, context.settings.anonymous_requests_per_hour, context.network_of(request))


async def open_stream_call(request: Request, media_type: str) -> Call:
    """Run the same checks as `open_call` for an endpoint that answers in this media type, not in a dialect's."""
    repository = repository_name(request)
    headers = request.headers
    if not admits(headers.getlist("accept"), media_type):
        raise InvalidArgument(HttpReason.NOT_ACCEPTABLE, f"accept: expected {media_type}")
    dialect = for_error(headers.getlist("accept"), headers.get("content-type"))
    call = Call(context_of(request), repository, dialect, await authenticated_caller(request, repository))
    await take_from_rate(request, call.caller)
    return call


async def open_call_with_body(
    request: Request,
    model: type[Shape],
    permission: Permission,
    *,
    max_bytes: int,
    may_be_empty: bool = False,
    plain_json: bool = False,
    check: Callable[[object], None] | None = None,
    is_counted: bool = True,
) -> tuple[Call, Shape]:
    """Run the checks that precede the rules of an endpoint, and return the JSON body as well.

    An anonymous caller that lacks `permission` is refused before its body is read, because it could otherwise make this
    process read any number of bodies. Raises the errors of `open_call`, `Authorizer.check` and `read_json`.
    """
    call = await open_call(request, is_counted=is_counted)
    if not call.caller.user_id:
        await call.authorize(permission, "")
    body = await read_json(
        request, model, max_bytes=max_bytes, may_be_empty=may_be_empty, plain_json=plain_json, check=check
    )
    return call, body


async def authorized_action(request: Request, operation: Operation) -> ActionGrant:
    """Return the grant of the token on an action's URL, if the access by which it was issued is still valid.

    Raises the errors of `ActionTokens.check`, `Slot.count_user` and `Authorizer.check_grant`.
    """
    repository = repository_name(request)
    add_log_fields(request.scope, objects=1)
    tokens = context_of(request).tokens
    grant = tokens.check(
        request.headers.getlist("authorization"),
        own=request.headers.getlist(TOKEN_HEADER),
        operation=operation,
        repository=repository,
        oid=request.path_params["oid"],
    )
    add_log_fields(request.scope, user=grant.user)
    if grant.user:
        slot_of(request.scope).count_user(grant.user)
    await context_of(request).authorizer.check_grant(grant)
    return grant


def idempotency_key(request: Request) -> str:
    """Return the idempotency key of a request, by which a retry of the request is recognised.

    A trusted proxy that retries a request, perhaps at another facade, sends the same request id. Ids of other senders
    are not trusted, so each of their requests gets a new key.
    """
    return client_of(request.scope).request_id or uuid.uuid4().hex


def query_values(request: Request) -> dict[str, str]:
    """Return the query; empty values are absent, and bytes that are not UTF-8 are read as U+FFFD.

    Raises `InvalidArgument` (INVALID_FIELD) for more fields than any request needs.
    """
    query = request.scope["query_string"].decode(errors="replace")
    try:
        return dict(parse_qsl(query, errors="replace", max_num_fields=_MAX_FIELDS))
    except ValueError:
        message = f"query: expected at most {_MAX_FIELDS} fields"
        raise InvalidArgument(Reason.INVALID_FIELD, message) from None
