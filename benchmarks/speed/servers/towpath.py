"""Towpath itself: `towpath up` with its defaults."""

import hashlib
import secrets
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.speed.blobs import Blob
from benchmarks.speed.client import Site
from benchmarks.speed.servers.server import Server
from services.cli import embedded_postgres
from services.cli.up.runtime_directory import runtime_directory
from services.storage.blob_names import new_name
from tests.support.http import basic
from tests.support.stack import Stack

USER = "alice"
_REPOSITORY = "demo/assets"
_SQL_SECONDS = 900
_INDEXED_BYTES = 64 * 1024
_REPOSITORIES = """
    BEGIN;
    INSERT INTO locks.repositories (name, public, forced_unlock)
    SELECT name || '-' || number, public, forced_unlock
    FROM locks.repositories, generate_series(0, {count} - 1) AS number
    WHERE name = '{repository}' ON CONFLICT DO NOTHING;
    CREATE TEMPORARY TABLE copies AS
    SELECT original.id AS original_id, copy.id
    FROM locks.repositories AS original JOIN locks.repositories AS copy ON copy.name LIKE original.name || '-%'
    WHERE original.name = '{repository}';
    INSERT INTO locks.grants (user_id, repository_id, role, ref_patterns)
    SELECT user_id, copies.id, role, ref_patterns FROM locks.grants JOIN copies ON repository_id = original_id
    ON CONFLICT DO NOTHING;
    INSERT INTO storage.objects (repository_id, oid, size)
    SELECT copies.id, oid, size FROM storage.objects JOIN copies ON repository_id = original_id
    ON CONFLICT DO NOTHING;
    COMMIT;
    ANALYZE storage.objects;
"""


class Towpath(Server):
    """With the demo's repository and users, and more in the environment where a name says so."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self._environment = dict(environment)

    def install(self) -> str:
        """Return its version: it is this one."""
        return version("towpath")

    @contextmanager
    def running(self, data: Path) -> Iterator[Site]:
        """Run it, from its ready line on."""
        data.parent.mkdir(parents=True, exist_ok=True)
        stack = Stack(data, ("--demo",), self._environment)
        try:
            stack.start()
            assert stack.process is not None
            token = stack.tokens[USER]
            headers = {"Authorization": basic(USER, token)}
            yield Site(stack.origin, stack.base_url, stack.process.pid, headers, login=(USER, token))
        finally:
            if stack.process is not None and stack.process.poll() is None:
                stack.stop()

    def lock(self, site: Site, data: Path, paths: Sequence[str]) -> None:
        """Copy them into the table: the many that are wanted take long one by one."""
        self.lock_for(site, data, paths, [USER] * len(paths))

    def lock_for(self, site: Site, data: Path, paths: Sequence[str], owners: Sequence[str]) -> None:
        """Copy them into the table, and add the owners that there are not."""
        repository, ids = _repository(site, data), _users(data, owners)
        now = datetime.now(UTC).replace(microsecond=0).isoformat()
        rows = (
            (repository, path, rf"\\x{_digest(path)}", ids[owner], now, secrets.token_hex(16))
            for path, owner in zip(paths, owners, strict=True)
        )
        _copy(data, "locks.locks (repository_id, path, path_hash, owner_id, locked_at, idempotency_key)", rows)

    def index(self, site: Site, data: Path, count: int) -> list[Blob]:
        """Copy them into the tables, without bytes."""
        repository, oids = _repository(site, data), [secrets.token_hex(32) for _ in range(count)]
        _copy(
            data, "storage.objects (repository_id, oid, size)", ((repository, oid, str(_INDEXED_BYTES)) for oid in oids)
        )
        _copy(data, "storage.contents (oid, store_id, name)", ((oid, "1", new_name(oid)) for oid in oids))
        return [Blob(oid, _INDEXED_BYTES, data) for oid in oids]

    def repositories(self, site: Site, data: Path, count: int) -> list[Site]:
        """Copy this one in the tables, unless they are there."""
        _sql(data, _REPOSITORIES.format(repository=_REPOSITORY, count=count))
        return [replace(site, base_url=f"{site.base_url}-{number}") for number in range(count)]


def postgres(data: Path) -> embedded_postgres.EmbeddedPostgres:
    """Return the Postgres that `towpath up` runs."""
    return embedded_postgres.EmbeddedPostgres(data / "postgres", runtime_directory(data.resolve()))


def _repository(site: Site, data: Path) -> str:
    """Return the id of a site's repository."""
    name = site.base_url.removeprefix(f"{site.origin}/")
    return _sql(data, f"SELECT id FROM locks.repositories WHERE name = '{name}'")  # noqa: S608 - a constant


def _users(data: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the ids of users by their names; users that there are not are added."""
    values = ", ".join(f"('{name}', false)" for name in sorted(set(names)))
    _sql(data, f"INSERT INTO locks.users (name, administrator) VALUES {values} ON CONFLICT DO NOTHING")  # noqa: S608 - our own names
    found = _sql(data, "SELECT name, id FROM locks.users")
    return {name: number for name, _, number in (line.partition("|") for line in found.splitlines())}


def _digest(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()


def _copy(data: Path, table: str, rows: Iterable[tuple[str, ...]]) -> None:
    """Add rows to a table of the Postgres that `towpath up` runs, and let Postgres learn how many there are."""
    text = "".join("\t".join(row) + "\n" for row in rows)
    _sql(data, f"COPY {table} FROM STDIN", text)
    _sql(data, f"VACUUM ANALYZE {table.split(maxsplit=1)[0]}")


def _sql(data: Path, statement: str, told: str = "") -> str:
    """Run a statement, and return what it answers. Raises `subprocess.CalledProcessError`."""
    psql = embedded_postgres.programs() / "psql"
    done = subprocess.run(  # noqa: S603 - the program of our own Postgres
        [psql, "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", f"--command={statement}", postgres(data).url],
        input=told,
        stdout=subprocess.PIPE,
        text=True,
        env=embedded_postgres.ENVIRONMENT,
        timeout=_SQL_SECONDS,
        check=True,
    )
    return done.stdout.strip()
