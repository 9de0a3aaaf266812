"""The servers that are compared: how each is brought here, run, and filled."""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.speed.servers.disk import Disk
from benchmarks.speed.servers.giftless import Giftless
from benchmarks.speed.servers.lfs_test_server import LfsTestServer
from benchmarks.speed.servers.lfsx import Lfsx
from benchmarks.speed.servers.nginx import Nginx
from benchmarks.speed.servers.rudolfs import Rudolfs
from benchmarks.speed.servers.server import Missing, Server
from benchmarks.speed.servers.towpath import Towpath

__all__ = ["PEERS", "RELAYED", "REPEATED", "TOWPATH", "Missing", "Server", "servers"]

TOWPATH = "towpath"
REPEATED = "towpath-repeated"
"""Towpath, asked for the same again and again, where it is else asked for what nobody has asked for before."""
RELAYED = "towpath-relayed"
PEERS = ("lfs-test-server", "lfsx", "rudolfs", "giftless", "nginx", "disk")

# One user locks more here than one may by default.
_MANY_LOCKS: Mapping[str, str] = {"TOWPATH_LOCKS_PER_REPOSITORY": "1000000", "TOWPATH_LOCKS_PER_USER": "1000000"}
_RELAYED_ENVIRONMENT: Mapping[str, str] = {"TOWPATH_SHARED_STORAGE_PATH": ""}
"""Settings that make the facade ask storage for bytes even if both are on one file system."""


def servers(programs: Path, names: tuple[str, ...]) -> list[Server]:
    """Return the servers of these names; peers that are installed for it are installed below the folder `programs`."""
    known: list[Server] = [
        Towpath(TOWPATH, _MANY_LOCKS),
        Towpath(REPEATED, _MANY_LOCKS),
        Towpath(RELAYED, _RELAYED_ENVIRONMENT),
        LfsTestServer(programs),
        Lfsx(programs),
        Rudolfs(programs),
        Giftless(programs),
        Nginx(),
        Disk(),
    ]
    return [server for server in known if server.name in names]
