"""The members of groups that have a quota: the storage service counts bytes, and learns from here whose limits count.

Every lock service tells, within seconds after a change: who has told what is no longer so, tells again. Members that an
issuer names are those of its tokens.
"""

from collections.abc import Collection
from functools import partial
from typing import Never

from sqlalchemy import func, select, union
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.concurrency.periodic import run_periodically
from services.common.errors import Unimplemented
from services.database.transactions import Database
from services.locks.models import GroupMember, Token, TokenGroup
from services.locks.storage_client import StorageClient

INTERVAL_SECONDS = 10.0


class LimitedGroups:
    """Tells the storage service the members of groups that have a quota. Its owner runs `run`."""

    def __init__(self, database: Database, storage: StorageClient) -> None:
        self._database = database
        self._storage = storage
        self._told: dict[int, frozenset[int]] = {}

    async def run(self) -> Never:
        """Tell changes about every ten seconds, forever."""
        await run_periodically(self.tell, INTERVAL_SECONDS, trouble="members of groups with quotas are not told")

    async def tell(self) -> None:
        """Tell the members of each group that has a quota, unless this service has told the same before."""
        try:
            found = await self._storage.call(self._storage.objects.ListLimitedGroups, pb.ListLimitedGroupsRequest())
        except Unimplemented:
            # The storage service is of the version before.
            return
        members = await self._database.run(partial(members_of, group_ids=found.group_ids))
        self._told = {id_: told for id_, told in self._told.items() if id_ in members}
        for group_id, user_ids in members.items():
            if self._told.get(group_id) != user_ids:
                await tell_members(self._storage, group_id, user_ids)
                self._told[group_id] = user_ids


async def members_of(connection: AsyncConnection, group_ids: Collection[int]) -> dict[int, frozenset[int]]:
    """Return the ids of the members of each of the groups, those that issuers name included."""
    named = select(col(TokenGroup.group_id), col(Token.user_id)).join(Token, col(Token.id) == col(TokenGroup.token_id))
    members = union(select(col(GroupMember.group_id), col(GroupMember.user_id)), named).subquery()
    statement = select(members.c.group_id, func.array_agg(members.c.user_id))
    rows = await connection.execute(
        statement.where(members.c.group_id.in_(list(group_ids))).group_by(members.c.group_id)
    )
    found = {row[0]: frozenset(row[1]) for row in rows}
    return {id_: found.get(id_, frozenset()) for id_ in group_ids}


async def tell_members(storage: StorageClient, group_id: int, user_ids: Collection[int]) -> None:
    """Tell the storage service who the members of a group are."""
    request = pb.SetLimitedGroupMembersRequest(group_id=group_id, user_ids=sorted(user_ids))
    await storage.call(storage.objects.SetLimitedGroupMembers, request)
