"""The first page of a repository: its state, what it has, and how a git repository is connected to it."""

import asyncio

from starlette.responses import Response
from towpath.storage.v1 import storage_service_pb2 as pb

from services.facade.auth.authorizer import Permission
from services.facade.pages.rights import PERMISSION_WORDS, rights_in
from services.facade.pages.routing import page
from services.facade.pages.usage import change, limits_of
from services.facade.pages.visit import Visit
from services.facade.routes.request import repository_name_in

PATH = "/{repository}"


async def show(visit: Visit) -> Response:
    """Show a repository."""
    repository = repository_name_in(visit.params["repository"])
    repository_id = await visit.authorize(repository)
    clients = visit.context.clients
    reply, rights = await asyncio.gather(
        clients.storage.call(clients.storage_stub.GetUsage, pb.GetUsageRequest(repository_ids=[repository_id])),
        rights_in(visit, repository_id),
    )
    [usage] = reply.repositories
    address = f"{visit.origin}/{repository}"
    return visit.page(
        "repository.html",
        repository=repository,
        rights=rights,
        is_writer=visit.caller.administrator or rights.permission != Permission.READ,
        may=PERMISSION_WORDS[rights.permission.value],
        usage=usage,
        limits=limits_of(usage),
        growth=change(usage.growth_bytes),
        connect=(
            f"git config --file .lfsconfig lfs.url {address}\n"
            "git config --file .lfsconfig lfs.locksverify true\n"
            "git add .lfsconfig && git commit -m 'Store large files on Towpath'"
        ),
        track="git lfs track --lockable '*.psd' '*.uasset'\ngit add .gitattributes",
        clone="git lfs install\ngit clone GIT_ADDRESS",
    )


ROUTES = (page("page_repository", PATH, show, by_accept=True),)
