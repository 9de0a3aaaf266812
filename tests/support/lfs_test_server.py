"""A real lfs-test-server on a loopback port, which `make programs` builds with Go: another server of the protocol."""

import asyncio
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.http import basic, oid_of
from tests.support.ports import free_address
from tests.support.programs import needed
from tests.support.waiting import START_SECONDS, STEP_SECONDS, blocking_until

MEDIA_TYPE = "application/vnd.git-lfs+json"
ADMIN = "alice"

_BATCH = 100
_CONCURRENCY = 8


def environment(address: str, data: Path, user: str, password: str) -> Mapping[str, str]:
    """Return the variables that it reads: it listens on HOST:PORT, keeps all below `data`, and knows one user."""
    return {
        "LFS_LISTEN": f"tcp://{address}",
        "LFS_HOST": address,
        "LFS_METADB": str(data / "lfs.db"),
        "LFS_CONTENTPATH": str(content_folder(data)),
        "LFS_ADMINUSER": user,
        "LFS_ADMINPASS": password,
    }


def content_folder(data: Path) -> Path:
    """Return the folder in which it keeps the objects of all repositories, as `ab/cd/REST`."""
    return data / "objects"


class LfsTestServer:
    """One that runs: its address, its folder, and the passwords of its users."""

    def __init__(self, address: str, data: Path) -> None:
        self.origin = f"http://{address}"
        self.data = data
        self.passwords = {ADMIN: secrets.token_urlsafe(20)}

    @property
    def password(self) -> str:
        """Return the password of `ADMIN`."""
        return self.passwords[ADMIN]

    @property
    def objects(self) -> Path:
        """Return the folder of its objects."""
        return content_folder(self.data)

    def url(self, repository: str = "demo/assets") -> str:
        """Return the base URL of a repository; it makes any."""
        return f"{self.origin}/{repository}"

    def client(self, user: str = ADMIN) -> httpx.AsyncClient:
        """Return a client that signs in as a user."""
        headers = {"Authorization": basic(user, self.passwords[user]), "Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE}
        return httpx.AsyncClient(headers=headers, trust_env=False, timeout=STEP_SECONDS)

    async def add_user(self, name: str) -> str:
        """Add a user; return the password."""
        password = secrets.token_urlsafe(20)
        async with self.client() as http:
            form = "application/x-www-form-urlencoded"
            answer = await http.post(
                f"{self.origin}/mgmt/add", data={"name": name, "password": password}, headers={"Content-Type": form}
            )
        assert answer.status_code == 302, answer.text
        self.passwords[name] = password
        return password

    async def fill(self, contents: Sequence[bytes], repository: str = "demo/assets") -> None:
        """Upload objects, many at once."""
        limit = asyncio.Semaphore(_CONCURRENCY)
        async with self.client() as http:

            async def put(data: bytes) -> None:
                async with limit:
                    href = f"{self.url(repository)}/objects/{oid_of(data)}"
                    answer = await http.put(href, content=data, headers={"Accept": "application/vnd.git-lfs"})
                assert answer.status_code == 200, answer.text

            for first in range(0, len(contents), _BATCH):
                chunk = contents[first : first + _BATCH]
                asked = {
                    "operation": "upload",
                    "objects": [{"oid": oid_of(data), "size": len(data)} for data in chunk],
                }
                (await http.post(f"{self.url(repository)}/objects/batch", json=asked)).raise_for_status()
                async with asyncio.TaskGroup() as group:
                    for data in chunk:
                        group.create_task(put(data))

    async def lock(self, paths: Sequence[str], user: str = ADMIN, repository: str = "demo/assets") -> None:
        """Lock paths as a user, who is added where there is none of this name."""
        if user not in self.passwords:
            await self.add_user(user)
        async with self.client(user) as http:
            for path in paths:
                answer = await http.post(f"{self.url(repository)}/locks", json={"path": path})
                assert answer.status_code == 201, answer.text

    async def locks(self, repository: str = "demo/assets") -> list[dict[str, Any]]:
        """Return all locks. Without a limit it answers them on one page."""
        async with self.client() as http:
            answer = await http.get(f"{self.url(repository)}/locks")
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()["locks"] or []
        return found


@contextmanager
def lfs_test_server(data: Path) -> Iterator[LfsTestServer]:
    """Run one that keeps what it has below a folder, from when it answers; skip the test where it is not here."""
    program = needed("lfs-test-server")
    data.mkdir(parents=True, exist_ok=True)
    address = free_address()
    server = LfsTestServer(address, data)
    log = data / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program],
            cwd=data,
            env=environment(address, data, ADMIN, server.password),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        blocking_until(lambda: _answers(process, server.origin, log), "lfs-test-server answers", seconds=START_SECONDS)
        yield server
    finally:
        process.kill()
        process.wait(STEP_SECONDS)


def _answers(process: subprocess.Popen[bytes], origin: str, log: Path) -> bool:
    assert process.poll() is None, f"it ended with {process.returncode}; its log:\n{log.read_text(errors='replace')}"
    try:
        return httpx.get(origin, trust_env=False, timeout=STEP_SECONDS).status_code == 404
    except httpx.TransportError:
        return False
