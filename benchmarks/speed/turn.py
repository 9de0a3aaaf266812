"""One server's turn at one load."""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from benchmarks.speed.blobs import Blob
from benchmarks.speed.client import Site
from benchmarks.speed.material import Material
from benchmarks.speed.scale import Scale
from benchmarks.speed.servers import REPEATED, TOWPATH
from benchmarks.speed.servers.server import Server
from benchmarks.speed.wrk import Rate

INDEXED = 40_000
"""So many objects that none is asked for twice within some seconds, one by one."""


@dataclass
class Turn:
    """A server that runs on its data, what it is asked for, and what is found out about it."""

    server: Server
    site: Site
    data: Path
    scale: Scale
    material: Material
    rows: Collection[str]
    """The rows that are wanted; a load may be able to report more."""
    figures: dict[str, float] = field(default_factory=dict)
    refused: dict[str, float] = field(default_factory=dict)
    """The part of its requests that a server refused, for the rows where it refused any."""

    @property
    def asks_again(self) -> bool:
        """True if the server gets the same requests repeatedly, and no request whose answer is never cached."""
        return self.server.name == REPEATED

    @cached_property
    def indexed(self) -> tuple[Site, list[Blob]]:
        """A repository of its own, and objects that it holds, without their bytes; it is filled once."""
        [site] = self.server.repositories(self.site, self.data, 1)
        return site, self.server.index(site, self.data, self.scale.level(INDEXED))

    @property
    def asks_anew(self) -> bool:
        """True if no request may be repeated; peers answer a repeated request like the first."""
        return self.server.name == TOWPATH

    def sites(self, count: int) -> list[Site]:
        """Return repositories that hold the same, so many where nothing may be asked twice, and else this one alone."""
        if not self.asks_anew:
            return [self.site]
        return self.server.repositories(self.site, self.data, self.scale.level(count))

    def tell_rate(self, row: str, rate: Rate) -> None:
        """Note a load of requests. Raises AssertionError where none was answered as it should be."""
        assert rate.requests > rate.refused, f"{row}: {rate.requests} answers, {rate.refused} of them errors"
        self.figures[row] = rate.per_second
        if rate.refused:
            self.refused[row] = rate.refused / rate.requests
