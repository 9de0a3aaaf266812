"""The routes of the pages of the site."""

from services.facade.pages.routing import PageRoute
from services.facade.pages.site import audit, groups, hooks, identity, overview, repositories, stores, users

ROUTES: tuple[PageRoute, ...] = (
    *overview.ROUTES,
    *repositories.ROUTES,
    *users.ROUTES,
    *groups.ROUTES,
    *stores.ROUTES,
    *hooks.ROUTES,
    *identity.ROUTES,
    *audit.ROUTES,
)
