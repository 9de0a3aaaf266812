"""What a request says, checked in the one order of all endpoints: Accept, credentials, Content-Type, size, JSON, shape.

What nobody in particular may do is refused between credentials and Content-Type. Each step is a function, and an
endpoint calls them in that order. As dependencies of FastAPI they took longer to be found than to be done.
"""

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from urllib.parse import parse_qsl

from fastapi import Request

from services.common.errors import InvalidArgument
from services.facade.auth.action_tokens import TOKEN_HEADER, Operation, Permit
from services.facade.auth.authorizer import Caller, Permission
from services.facade.context import facade_of
from services.facade.middleware.concurrency_limit import place_of
from services.facade.routes.repository import name_of
from services.facade.web import request_body as body
from services.facade.web.error_reasons import HttpReason
from services.facade.web.forwarded_headers import outside_of
from services.facade.web.media_types import Dialect, negotiate
from services.facade.web.request_log import note
from services.facade.web.schemas import Body

Shape = TypeVar("Shape", bound=Body)


def repository_name(request: Request) -> str:
    """Return the name of the repository that the address names."""
    name = name_of(request.path_params["repository"])
    note(request.scope, repository=name)
    return name


def accepted_dialect(request: Request) -> Dialect:
    """Return the dialect of the answer. Raises `InvalidArgument` (NOT_ACCEPTABLE)."""
    headers = request.headers
    chosen = negotiate(headers.getlist("accept"), headers.get("content-type"))
    if chosen is None:
        raise InvalidArgument(HttpReason.NOT_ACCEPTABLE, "accept: expected one of the interface's media types")
    return chosen


async def authenticated_caller(request: Request) -> Caller:
    """Return who the caller is. Raises what `Access.authenticate` and `Place.count_user` say."""
    address, place = outside_of(request.scope).address, place_of(request.scope)
    access = facade_of(request).access
    caller = await access.authenticate(_authorizations(request), address, place.left_to_others)
    if name := caller.name:
        await place.patiently(partial(place.count_user, name))
    note(request.scope, user=name)
    return caller


async def refuse_strangers(request: Request, caller: Caller, repository: str, permission: Permission) -> None:
    """Raise what `Access.check` says where the caller is nobody in particular, and anybody may not do this there.

    Such a caller is told before the body is read, because it can make us read as many bodies as it likes.
    """
    if not caller.user_id:
        await facade_of(request).access.check(caller, repository, permission, "")


async def read_json(
    request: Request,
    model: type[Shape],
    *,
    most_bytes: int,
    may_be_empty: bool = False,
    check: Callable[[object], None] | None = None,
) -> Shape:
    """Return the JSON body; where it may be empty, no body is an empty object.

    Raises, in this order, what `body.check_content_type`, `read`, `Place.take`, `parse`, `check`, `shaped` say.
    """
    settings = facade_of(request).settings
    body.check_content_type(request.headers)
    async with place_of(request.scope).left_to_others():
        data = await body.read(
            request.headers,
            request.receive,
            most_bytes=min(most_bytes, settings.body_bytes),
            seconds=settings.json_body_seconds,
        )
    if may_be_empty and not data:
        return body.shaped(model, {})
    return await body.decoded(model, data, check)


async def permitted(request: Request, operation: Operation) -> Permit:
    """Return what the token on an action's URL permits, while the access stands for which it was handed out.

    Raises what `ActionTokens.check`, `Place.count_user` and `Access.check_permit` say.
    """
    repository = repository_name(request)
    note(request.scope, objects=1)
    tokens = facade_of(request).tokens
    permit = tokens.check(
        _authorizations(request),
        own=request.headers.getlist(TOKEN_HEADER),
        operation=operation,
        repository=repository,
        oid=request.path_params["oid"],
    )
    note(request.scope, user=permit.user)
    if permit.user:
        place_of(request.scope).count_user(permit.user)
    await facade_of(request).access.check_permit(permit)
    return permit


def idempotency_key(request: Request) -> str:
    """Return the key of the change that a request asks for, by which a repeat of it is known.

    A trusted proxy that sends a request again, perhaps to another facade, gives it the same id. The ids of anybody else
    may be anything, so their requests are all different.
    """
    return outside_of(request.scope).request_id or uuid.uuid4().hex


def query_values(request: Request) -> dict[str, str]:
    """Return the query; empty values are absent, and what is not UTF-8 is read with U+FFFD."""
    query = request.scope["query_string"].decode(errors="replace")
    return dict(parse_qsl(query, errors="replace"))


def _authorizations(request: Request) -> Sequence[str]:
    return request.headers.getlist("authorization")
