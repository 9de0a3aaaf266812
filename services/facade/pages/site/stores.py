"""The stores of the site: what each has and lacks, and how far its copy is."""

from typing import NamedTuple

from starlette.responses import Response
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1.store_service_pb2 import Store

from services.common.store_urls import without_credentials
from services.facade.pages.routing import page
from services.facade.pages.site.lists import page_links, part_of
from services.facade.pages.visit import Visit

PATH = "/-/site/stores"
_ALL = 100


class _Shown(NamedTuple):
    store: Store
    url: str
    percent: int
    """The share of all bytes that the store has; 100 only if it lacks nothing."""


async def show(visit: Visit) -> Response:
    """Show a page of the stores by name."""
    reply = await visit.administer(visit.context.clients.admin_stub.ListStores, pb.ListStoresRequest())
    part = part_of(reply.stores, lambda store: store.name, visit.query.get("cursor", ""))
    shown = [_Shown(store, without_credentials(store.url), percent_of(store)) for store in part.entries]
    return visit.page("site/stores.html", stores=shown, links=page_links(visit, PATH, part.next_cursor))


def percent_of(store: Store) -> int:
    """Return the percentage of the bytes of all stores that a store has; 100 only if it lacks no object."""
    if not store.lacking_count:
        return _ALL
    every = store.object_bytes + store.lacking_bytes
    return min(store.object_bytes * _ALL // every, _ALL - 1) if every else 0


ROUTES = (page("page_site_stores", PATH, show),)
