"""Locks over SSH."""

import re
from collections.abc import Mapping
from typing import Any

from services.ssh.errors import Refused
from services.ssh.interface import Repository
from services.ssh.pkt_line import Message, Writer

_BAD_REQUEST, _CREATED, _CONFLICT = 400, 201, 409
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_FILTERS = ("path", "id", "cursor", "limit")
# The advice of the lock service does not work here: git-lfs sends no force over SSH.
_FORCE = "`git lfs unlock --force` removes it"
_FORCE_BY_HTTP = (
    "git-lfs sends no force over SSH: `git -c lfs.sshtransfer=never lfs unlock --force` removes it, or steal it"
)


class Locks:
    """The commands for locks of one session."""

    def __init__(self, repository: Repository, writer: Writer) -> None:
        self._repository = repository
        self._writer = writer

    async def lock(self, message: Message) -> None:
        """Answer `lock`: the new lock, or the lock that stands."""
        path = message.arguments.get("path", "")
        if not path:
            raise Refused(_BAD_REQUEST, "path: expected the path to lock")
        body = {"path": path, **_ref_of(message)}
        status, answer = await self._repository.call("POST", "locks", body, accepted=(_CONFLICT,))
        lock = answer.get("lock")
        if not isinstance(lock, dict):
            raise Refused(status if status == _CONFLICT else 502, str(answer.get("message", "")))
        lines = [str(answer.get("message", ""))] if status == _CONFLICT else None
        await self._writer.answer(status if status == _CONFLICT else _CREATED, *_fields(lock), lines=lines)

    async def unlock(self, lock_id: str, message: Message) -> None:
        """Answer `unlock`: the lock that is gone."""
        if not _ID.fullmatch(lock_id):
            raise Refused(_BAD_REQUEST, "id: expected the id of a lock")
        body = {"force": message.arguments.get("force") == "true", **_ref_of(message)}
        try:
            _, answer = await self._repository.call("POST", f"locks/{lock_id}/unlock", body)
        except Refused as error:
            raise Refused(error.status, error.message.replace(_FORCE, _FORCE_BY_HTTP)) from error
        await self._writer.answer(200, *_fields(answer["lock"]))

    async def list_page(self, message: Message) -> None:
        """Answer `list-lock`: a page of locks, each with whose it is."""
        asked = message.arguments
        params = {name: asked[name] for name in _FILTERS if asked.get(name)}
        if ref := asked.get("refspec") or asked.get("refname"):
            params["refspec"] = ref
        _, answer = await self._repository.call("GET", "locks", params=params)
        lines = [line for lock in answer.get("locks") or () for line in self._lines(lock)]
        cursor = answer.get("next_cursor")
        await self._writer.answer(200, *([f"next-cursor={cursor}"] if cursor else []), lines=lines)

    def _lines(self, lock: Mapping[str, Any]) -> list[str]:
        lock_id, owner = lock["id"], lock["owner"]["name"]
        return [
            f"lock {lock_id}",
            f"path {lock_id} {lock['path']}",
            f"locked-at {lock_id} {lock['locked_at']}",
            f"ownername {lock_id} {owner}",
            f"owner {lock_id} {'ours' if owner == self._repository.user_name else 'theirs'}",
        ]


def _ref_of(message: Message) -> dict[str, Any]:
    ref = message.arguments.get("refname")
    return {"ref": {"name": ref}} if ref else {}


def _fields(lock: Mapping[str, Any]) -> list[str]:
    return [
        f"id={lock['id']}",
        f"path={lock['path']}",
        f"locked-at={lock['locked_at']}",
        f"ownername={lock['owner']['name']}",
    ]
