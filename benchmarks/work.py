"""Requests of clients, one method each, as the benchmarks send them."""

import os
from dataclasses import dataclass

from tests.support.http import MEDIA_TYPE, Action, Client, content, oid_of


@dataclass(frozen=True)
class _Upload:
    data: bytes
    upload: Action
    verify: Action


class Work:
    """Each method but the first asks once; what is unlocked was locked before, and what is verified was uploaded."""

    def __init__(self, client: Client, origin: str) -> None:
        self._client = client
        self._origin = origin
        self._hundred = [(oid_of(each), 1000) for each in (content(f"held {number}", 1000) for number in range(100))]
        self._locks: list[str] = []
        self._announced: list[_Upload] = []
        self._arrived: list[_Upload] = []
        self._download = Action("", {})

    async def prepare(self) -> None:
        """Upload what is asked for, and lock 100 paths."""
        for number in range(100):
            (await self._client.upload(content(f"held {number}", 1000))).raise_for_status()
            (await self._client.lock(f"standing/{number}.tif")).raise_for_status()
        action = await self._client.action("download", *self._hundred[0])
        assert action is not None
        self._download = action

    def left(self, name: str) -> int | None:
        """Return how often something can be asked for; None where nothing bounds that."""
        return {"unlock": len(self._locks), "upload": len(self._announced)}.get(name)

    async def healthz(self) -> None:
        """Ask for nothing."""
        (await self._client.http.get(f"{self._origin}/healthz")).raise_for_status()

    async def batch_1(self) -> None:
        """Ask where one object is."""
        (await self._client.batch("download", self._hundred[0])).raise_for_status()

    async def batch_100(self) -> None:
        """Ask where 100 objects are."""
        (await self._client.batch("download", *self._hundred)).raise_for_status()

    async def verify_locks(self) -> None:
        """Ask for 100 locks, as a push does."""
        (await self._client.post("locks/verify", limit=100)).raise_for_status()

    async def lock(self) -> None:
        """Lock a path."""
        answer = await self._client.lock(f"made/{os.urandom(12).hex()}.tif")
        answer.raise_for_status()
        self._locks.append(answer.json()["lock"]["id"])

    async def unlock(self) -> None:
        """Unlock one."""
        (await self._client.unlock(self._locks.pop())).raise_for_status()

    async def batch_upload(self) -> None:
        """Announce an object that is not held."""
        data = os.urandom(1000)
        answer = await self._client.batch("upload", (oid_of(data), len(data)))
        actions = answer.json()["objects"][0]["actions"]
        upload, verify = (Action(actions[name]["href"], actions[name]["header"]) for name in ("upload", "verify"))
        self._announced.append(_Upload(data, upload, verify))

    async def upload(self) -> None:
        """Bring the bytes of an object."""
        upload = self._announced.pop()
        (await self._client.put(upload.upload, upload.data, len(upload.data))).raise_for_status()
        self._arrived.append(upload)

    async def verify(self) -> None:
        """Ask whether an object is held that was brought."""
        upload = self._arrived[-1]
        headers = {**upload.verify.header, "Content-Type": MEDIA_TYPE}
        body = {"oid": oid_of(upload.data), "size": len(upload.data)}
        (await self._client.http.post(upload.verify.href, json=body, headers=headers)).raise_for_status()

    async def download(self) -> None:
        """Get an object."""
        (await self._client.http.get(self._download.href, headers=self._download.header)).raise_for_status()
