"""AdminService: forges, whose tokens are credentials in the repositories that are tied to them."""

import re
from functools import partial
from urllib.parse import urlsplit

from towpath.access.v1 import admin_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.messages import FORGE_KIND_NUMBERS, forge_message
from services.locks.forges import github, gitlab
from services.locks.forges.patterns import check_patterns
from services.locks.forges.records import create_forge, delete_forge, list_forges
from services.locks.models import User
from services.locks.validation import check_name, check_new_name

_KINDS = {number: kind for kind, number in FORGE_KIND_NUMBERS.items()}
_API_URLS = {"github": github.API_URL, "gitlab": gitlab.API_URL}
_URL = re.compile(r"https?://[!-~]{1,500}", re.ASCII)


class ForgeHandlers(Handlers):
    """Adds, lists and removes forges."""

    @administrator_only
    async def CreateForge(self, request: pb.CreateForgeRequest, _administrator: User) -> pb.CreateForgeResponse:
        """Add a forge."""
        check_new_name("name", request.name)
        kind = _KINDS.get(pb.ForgeKind.ValueType(request.kind))
        if kind is None:
            names = [pb.ForgeKind.Name(number) for number in _KINDS]
            raise InvalidArgument(Reason.INVALID_FIELD, f"kind: expected one of {', '.join(names)}")
        creating = partial(
            create_forge,
            name=request.name,
            kind=kind,
            api_url=_api_url(request.api_url or _API_URLS.get(kind, "")),
            repositories=check_patterns("repositories", request.repositories),
            creates_on_use=request.creates_on_use,
        )
        return pb.CreateForgeResponse(forge=forge_message(await self.database.run(creating)))

    @administrator_only
    async def ListForges(self, request: pb.ListForgesRequest, _administrator: User) -> pb.ListForgesResponse:
        """Return all forges, ordered by name."""
        return pb.ListForgesResponse(forges=map(forge_message, await self.database.run(list_forges)))

    @administrator_only
    async def DeleteForge(self, request: pb.DeleteForgeRequest, _administrator: User) -> pb.DeleteForgeResponse:
        """Remove a forge with its tokens."""
        check_name("name", request.name)
        removed = await self.database.run(partial(delete_forge, name=request.name))
        return pb.DeleteForgeResponse(forge=forge_message(removed))


def _api_url(url: str) -> str:
    """Return a URL to which paths can be appended. Raises `InvalidArgument`."""
    problem = InvalidArgument(
        Reason.INVALID_FIELD,
        "api_url: expected http(s)://HOST[:PORT][/PATH], such as https://git.example.org/api/v1, without credentials",
    )
    if not _URL.fullmatch(url):
        raise problem
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise problem from error
    if not has_host or "@" in parts.netloc or parts.query or parts.fragment:
        raise problem
    return url.rstrip("/")
