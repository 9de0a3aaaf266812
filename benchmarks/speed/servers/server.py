"""Interface that the benchmark needs of each server that it compares."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.speed import client, curl
from benchmarks.speed.blobs import Blob
from benchmarks.speed.client import Request, Site


class Missing(Exception):
    """A server cannot be had here; the message says why."""


class Server(ABC):
    """A server; its data lie in whatever folder it is run on."""

    name: str

    @abstractmethod
    def install(self) -> str:
        """Bring it here if it is not, and return its version. Raises `Missing`."""

    @abstractmethod
    def running(self, data: Path) -> AbstractContextManager[Site]:
        """Run it on a data folder, that of an earlier run or one that does not exist, while the block lasts."""

    def downloads(self, site: Site, objects: Sequence[Blob]) -> list[Request]:
        """Return how objects are downloaded that it holds."""
        return client.actions(site, "download", objects)

    def uploads(self, site: Site, objects: Sequence[Blob]) -> list[Request]:
        """Return how objects are uploaded that it does not hold."""
        return client.actions(site, "upload", objects)

    def put(self, site: Site, data: Path, objects: Sequence[Blob]) -> float:
        """Upload big objects that it does not hold, all at once; return how many MB went in a second."""
        return curl.put(self.uploads(site, objects), objects)

    def hold(self, site: Site, data: Path, objects: Sequence[Blob]) -> None:
        """Let it hold objects."""
        client.upload(site, objects)

    def lock(self, site: Site, data: Path, paths: Sequence[str]) -> None:
        """Let it hold locks."""
        with client.connections() as connection:
            for path in paths:
                client.send(connection, client.post(site, "locks", path=path))

    def lock_for(self, site: Site, data: Path, paths: Sequence[str], owners: Sequence[str]) -> None:
        """Let it hold locks, each of the owner of the same number. Asked of Towpath alone."""
        raise NotImplementedError

    def index(self, site: Site, data: Path, count: int) -> list[Blob]:
        """Let its index have so many more objects, whose bytes nobody asks for; return them."""
        raise NotImplementedError

    def repositories(self, site: Site, data: Path, count: int) -> list[Site]:
        """Let it have so many more repositories, each of which holds what this one holds; return them.

        Asked of Towpath alone, as is `index`.
        """
        raise NotImplementedError
