"""The environments of the services."""

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from services.cache.settings import CacheSettings
from services.cli.errors import CommandError
from services.cli.settings import CommandSettings
from services.cli.up.environment import Environments, cache_environment
from services.common.settings import Settings
from services.facade.settings import FacadeSettings
from services.locks.settings import BootstrapSettings, LocksSettings
from services.ssh.settings import SshSettings
from services.storage.settings import StorageSettings

DECIDED = {"TOWPATH_LISTEN": "127.0.0.1:80", "TOWPATH_SIGNING_KEY": "the operator's"}
INHERITED = {
    **DECIDED,
    "TOWPATH_BATCH_OBJECTS": "5",
    "TOWPATH_TOKEN": "an administrator's",
    "TOWPATH_DATABASE_URL": "x",
    "TOWPATH_SERVER": "locks:9002",
    "TOWPATH_ADMIN_TOKEN": "the administrator's",
    "TOWPATH_DATABASE_PASSWORD": "the database's",
    "PATH": "/bin",
}


def environments() -> Environments:
    """Those of a stack whose sockets lie in /run/t."""
    return Environments(INHERITED, Path("/run/t"), SecretStr("postgresql://u:p@h/d"), 7, "json")


def test_operators_settings_are_passed_on() -> None:
    """The operator's settings must reach the services, except settings of `up` or of the command alone."""
    facade = environments().facade(9, storage_url="s3://b", signing_key="ours", public_url=None, drain_seconds=4)
    assert facade["TOWPATH_BATCH_OBJECTS"] == "5"
    assert facade["PATH"] == "/bin"
    assert (facade["TOWPATH_LISTEN"], facade["TOWPATH_SIGNING_KEY"]) == ("fd:9", "ours")
    assert facade["TOWPATH_LIFELINE_FD"] == "7"
    assert facade.keys().isdisjoint({"TOWPATH_TOKEN", "TOWPATH_SERVER", "TOWPATH_PUBLIC_URL"})


def test_each_gets_its_own() -> None:
    """Only storage and locks are told of the database, and all agree on where the others listen."""
    made = environments()
    storage = made.storage("file:///a%20b/storage", drain_seconds=1)
    locks = made.locks(drain_seconds=1)
    facade = made.facade(
        9, storage_url="file:///a%20b/storage", signing_key="ours", public_url="https://x", drain_seconds=4
    )
    assert storage["TOWPATH_STORAGE_URL"] == "file:///a%20b/storage"
    assert storage["TOWPATH_STORAGE_LISTEN"] == locks["TOWPATH_STORAGE_ADDRESS"] == facade["TOWPATH_STORAGE_ADDRESS"]
    assert locks["TOWPATH_LOCKS_LISTEN"] == facade["TOWPATH_LOCKS_ADDRESS"] == "unix:/run/t/locks.sock"
    assert "postgresql://" not in "".join(facade.values())
    assert [("TOWPATH_DATABASE_PASSWORD" in of) for of in (storage, locks, facade)] == [True, True, False]
    assert [("TOWPATH_ADMIN_TOKEN" in of) for of in (storage, locks, facade)] == [False, False, False]
    assert made.bootstrap()["TOWPATH_ADMIN_TOKEN"] == "the administrator's"
    secret = "TOWPATH_STORAGE_ADMIN_SECRET"
    assert [secret in of for of in (storage, locks, facade)] == [True, True, False]
    assert storage[secret] == locks[secret] != environments().storage("file:///a", drain_seconds=1)[secret]
    assert [("TOWPATH_SSH_SECRET" in of) for of in (storage, locks, facade)] == [False, True, False]
    assert facade["TOWPATH_PUBLIC_URL"] == "https://x"
    assert facade["TOWPATH_SHARED_STORAGE_PATH"] == "/a b/storage"


def test_a_service_gets_no_variable_that_it_does_not_read() -> None:
    """Whoever takes over a service finds no secret of another there; only storage has keys of the bucket."""
    settings: dict[str, type[Settings]] = {
        "storage": StorageSettings,
        "locks": LocksSettings,
        "facade": FacadeSettings,
        "ssh": SshSettings,
        "cache": CacheSettings,
        "bootstrap": BootstrapSettings,
        "towpath": CommandSettings,
    }
    known = {service: {f"TOWPATH_{name.upper()}" for name in read.model_fields} for service, read in settings.items()}
    of_libraries = {"PATH", "LC_ALL", "https_proxy", "OTEL_SERVICE_NAME", "TOWPATH_SECRETS_DIR"}
    of_stores, of_postgres = {"AWS_SECRET_ACCESS_KEY", "GOOGLE_SERVICE_ACCOUNT", "AZURE_CLIENT_SECRET"}, {"PGPASSWORD"}
    everything = {*set().union(*known.values()), *of_libraries, *of_stores, *of_postgres, "TOWPATH_X", "GITHUB_TOKEN"}
    made = replace(environments(), inherited=dict.fromkeys(everything, "127.0.0.1:1"))
    ssh = made.ssh("http://x", public_url=None, drain_seconds=1)
    assert ssh is not None
    given = {
        "storage": made.storage("s3://b", drain_seconds=1),
        "locks": made.locks(drain_seconds=1),
        "facade": made.facade(9, storage_url="s3://b", signing_key="ours", public_url=None, drain_seconds=1),
        "ssh": ssh,
        "bootstrap": made.bootstrap(),
        "cache": cache_environment(
            made.inherited,
            7,
            9,
            upstream="https://lfs.example.org",
            directory=Path("/data/cache"),
            public_url=None,
            log_format="json",
            drain_seconds=1,
        ),
    }
    more = {"storage": of_stores | of_postgres, "locks": of_postgres, "bootstrap": of_postgres}
    for service, environment in given.items():
        assert environment.keys() == known[service] | of_libraries | more.get(service, set()), service


def test_the_operators_secret_of_administration_is_kept_from_the_facade() -> None:
    """Whoever takes over a facade adds no store and removes no repository."""
    made = replace(environments(), inherited={"TOWPATH_STORAGE_ADMIN_SECRET": "the operator's"})
    facade = made.facade(9, storage_url="s3://b", signing_key="ours", public_url=None, drain_seconds=4)
    assert "TOWPATH_STORAGE_ADMIN_SECRET" not in facade
    for of in (made.storage("s3://b", drain_seconds=1), made.locks(drain_seconds=1)):
        assert of["TOWPATH_STORAGE_ADMIN_SECRET"] == "the operator's"


def test_the_facade_reads_objects_where_they_lie_on_a_disk() -> None:
    """Unless the operator says otherwise, or they lie in a bucket."""

    def of(storage_url: str, **inherited: str) -> str | None:
        made = replace(environments(), inherited=inherited)
        facade = made.facade(9, storage_url=storage_url, signing_key="ours", public_url=None, drain_seconds=4)
        return facade.get("TOWPATH_SHARED_STORAGE_PATH")

    assert of("file:///a/b") == "/a/b"
    assert of("s3://bucket/file") is None
    assert of("file:///a/b", TOWPATH_SHARED_STORAGE_PATH="") == ""


def test_facade_and_storage_share_memory() -> None:
    """Unless there is none, or the operator says otherwise; locks have no use for it."""

    def of(memory: Path | None, **inherited: str) -> list[str | None]:
        made = replace(environments(), inherited=inherited, memory=memory)
        storage, locks = made.storage("file:///a", drain_seconds=1), made.locks(drain_seconds=1)
        facade = made.facade(9, storage_url="file:///a", signing_key="ours", public_url=None, drain_seconds=4)
        return [each.get("TOWPATH_SHARED_MEMORY_PATH") for each in (storage, facade, locks)]

    assert of(Path("/m")) == ["/m", "/m", None]
    assert of(None) == [None, None, None]
    assert of(Path("/m"), TOWPATH_SHARED_MEMORY_PATH="")[:2] == ["", ""]


def test_facades_tell_their_metrics_at_ports_of_their_own() -> None:
    """The one after the first takes the next port; any free one is that for all."""

    def of(number: int, **inherited: str) -> str | None:
        made = replace(environments(), inherited=inherited)
        facade = made.facade(
            9, storage_url="s3://b", signing_key="ours", public_url=None, drain_seconds=4, number=number
        )
        return facade.get("TOWPATH_FACADE_METRICS_LISTEN")

    assert [of(number, TOWPATH_FACADE_METRICS_LISTEN="[::1]:9100") for number in range(3)] == [
        "[::1]:9100",
        "[::1]:9101",
        "[::1]:9102",
    ]
    assert [of(number, TOWPATH_FACADE_METRICS_LISTEN="127.0.0.1:0") for number in range(2)] == ["127.0.0.1:0"] * 2
    assert of(1) is None
    with pytest.raises(CommandError, match=r"TOWPATH_FACADE_METRICS_LISTEN: expected HOST:PORT, got '9100'"):
        of(1, TOWPATH_FACADE_METRICS_LISTEN="9100")


def test_secrets_are_not_shown() -> None:
    """A repr of the environments may be printed, so it must show no secret."""
    assert "an administrator's" not in repr(environments())
    assert "u:p@" not in repr(environments())


def test_a_cache_gets_no_secret_of_the_services() -> None:
    """It is told of its upstream, its folder and its socket; a folder of the operator's goes before that of `up`."""

    def made(**inherited: str) -> dict[str, str]:
        return cache_environment(
            {**INHERITED, **inherited},
            7,
            9,
            upstream="https://lfs.example.org",
            directory=Path("/data/cache"),
            public_url="https://x",
            log_format="json",
            drain_seconds=4,
        )

    cache = made()
    assert (cache["TOWPATH_LISTEN"], cache["TOWPATH_LIFELINE_FD"]) == ("fd:9", "7")
    assert (cache["TOWPATH_CACHE_UPSTREAM"], cache["TOWPATH_PUBLIC_URL"]) == ("https://lfs.example.org", "https://x")
    assert cache["TOWPATH_CACHE_DIRECTORY"] == "/data/cache"
    assert made(TOWPATH_CACHE_DIRECTORY="/mnt/fast")["TOWPATH_CACHE_DIRECTORY"] == "/mnt/fast"
    kept_back = ("SIGNING_KEY", "TOKEN", "ADMIN_TOKEN", "DATABASE_PASSWORD", "DATABASE_URL")
    assert cache.keys().isdisjoint(f"TOWPATH_{name}" for name in kept_back)
