"""The repositories that a user may read, by the grants and the policy that decide about a single access."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.access import policy
from services.locks.access.grants import granted_to
from services.locks.access.tokens import check_valid
from services.locks.models import Repository, TokenRole

# In place of any patterns: none of them admits a request that names no ref.
_SOME_REFS = ("refs/*",)


@dataclass(slots=True)
class ReadableRepository:
    """A repository that a user may read, and for each of the user's roles there the widest grant."""

    id: int
    name: str
    public: bool
    archived_at: datetime | None
    grants: list[policy.Grant] = field(default_factory=list)

    @property
    def permission(self) -> policy.Permission:
        """The most that the user may do, as if the repository were not archived."""
        access = policy.RepositoryAccess(self.public, self.grants)
        return policy.highest_permission(access)


async def list_readable(
    connection: AsyncConnection,
    *,
    user_id: int,
    token_id: int,
    after: str,
    limit: int | None,
    repository_id: int | None = None,
) -> Sequence[ReadableRepository]:
    """Return at most `limit` repositories, or all, whose names are after `after`, ordered by name; or only that one.

    A user with the id 0 reads what is public. Of a token of a forge, only repositories count whose role is known and
    valid. Raises `Unauthenticated` (BAD_CREDENTIALS) for a token that is not valid; an id of 0 is none.
    """
    validity = await check_valid(connection, token_id=token_id, user_id=user_id) if token_id else None
    granted = granted_to(user_id=user_id, token_id=token_id, repository_id=repository_id).subquery("granted")
    # One row for each role, however many groups give it, with however many patterns.
    mine = (
        select(
            granted.c.repository_id,
            granted.c.role,
            func.bool_or(func.cardinality(granted.c.ref_patterns) == 0).label("is_on_every_ref"),
        )
        .group_by(granted.c.repository_id, granted.c.role)
        .cte("mine")
    )
    # Joined instead of tested by IN, whose hash has to fit into `work_mem` where it stands beside an OR.
    own = select(mine.c.repository_id).distinct().subquery("own")
    columns = [col(getattr(Repository, name)) for name in ("id", "name", "public", "archived_at")]
    statement = (
        select(*columns)
        .join_from(Repository, own, own.c.repository_id == col(Repository.id), isouter=True)
        .where(
            col(Repository.in_bin_since).is_(None),
            col(Repository.name) > after,
            or_(col(Repository.public), own.c.repository_id.is_not(None)),
        )
        .order_by(col(Repository.name))
        .limit(limit)
    )
    if repository_id is not None:
        statement = statement.where(col(Repository.id) == repository_id)
    if validity is not None and validity.forge_id is not None:
        roles = select(col(TokenRole.repository_id)).where(
            col(TokenRole.token_id) == token_id, col(TokenRole.valid_until) > func.now()
        )
        statement = statement.where(col(Repository.forge_id) == validity.forge_id, col(Repository.id).in_(roles))
    page = statement.subquery("page")
    with_grants = (
        select(*page.c, mine.c.role, mine.c.is_on_every_ref)
        .join_from(page, mine, mine.c.repository_id == page.c.id, isouter=True)
        .order_by(page.c.name)
    )
    found: dict[int, ReadableRepository] = {}
    for *values, role, is_on_every_ref in await connection.execute(with_grants):
        repository = found.setdefault(values[0], ReadableRepository(*values))
        if role is not None:
            repository.grants.append(policy.Grant(policy.Role(role), () if is_on_every_ref else _SOME_REFS))
    return list(found.values())
