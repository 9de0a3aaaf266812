"""A check that compose.yaml, .env.example, the settings and the tables of the documents name the same variables."""

import re
from typing import Any

import yaml

from tests.support.readers import READERS, fields, is_secret
from tests.support.sources import ROOT, text

COMPOSE: dict[str, Any] = yaml.safe_load(text(ROOT / "compose.yaml"))
SERVICES = {**{service: service for service in READERS}, "facade-2": "facade"}
"""The containers of the services, and which service each is."""
# Chosen by the operator for compose itself.
OF_COMPOSE = {
    "TOWPATH_SECRETS",
    "TOWPATH_IMAGE",
    "TOWPATH_PUBLISH",
    "TOWPATH_SSH_PUBLISH",
    "TOWPATH_CACHE_PUBLISH",
    "TOWPATH_SSHD_IMAGE",
    "TOWPATH_PUBLISH_SECOND",
    "TOWPATH_PROXY_PUBLISH",
    "TOWPATH_PROXY_CERTIFICATE",
    "TOWPATH_PROXY_KEY",
    "TOWPATH_ENGINE_INTERNAL",
    "TOWPATH_WEBHOOKS_INTERNAL",
    "TOWPATH_MEMORY_LIMIT",
    "TOWPATH_POSTGRES_MEMORY_LIMIT",
    "TOWPATH_PROMETHEUS_PUBLISH",
    "TOWPATH_GRAFANA_PUBLISH",
}


# What the libraries of object stores read: where the keys are, and the file with them.
OF_LIBRARIES = {"AWS_SHARED_CREDENTIALS_FILE", "TOWPATH_S3_CREDENTIALS"}


def _environment(service: str) -> set[str]:
    return set(COMPOSE["services"][service].get("environment", {}))


def test_every_variable_is_a_setting_of_its_reader() -> None:
    """A container is given no variable and no secret that its program does not read."""
    for container, service in SERVICES.items():
        secrets = {name.upper() for name in COMPOSE["services"][container]["secrets"]}
        assert (_environment(container) | secrets) - OF_LIBRARIES <= fields(service).keys(), container


def test_every_container_is_bounded() -> None:
    """A container has a bound in memory and in processes, so that one that runs away does not take others with it."""
    for name, service in COMPOSE["services"].items():
        assert service["mem_limit"], name
        assert service["pids_limit"] == 1024, name


def test_what_is_required_is_given() -> None:
    """A service is given every setting that has no default."""
    for container, service in SERVICES.items():
        if service != "migrate":
            given = _environment(container) | {name.upper() for name in COMPOSE["services"][container]["secrets"]}
            assert {name for name, field in fields(service).items() if field.is_required()} <= given, container


def test_no_secret_is_a_variable() -> None:
    """A secret in a settings model must never be passed by the environment."""
    for container, service in SERVICES.items():
        secret = {name for name, field in fields(service).items() if is_secret(field)}
        assert not {name for name in secret if not name.endswith("DATABASE_URL")} & _environment(container), container


def test_no_url_of_a_database_has_a_password() -> None:
    """The password comes from its file."""
    urls = re.findall(r"postgresql://\S+", text(ROOT / "compose.yaml"))
    assert urls
    assert all(re.fullmatch(r"postgresql://towpath@postgres:5432/towpath", url) for url in urls)


def test_what_may_be_chosen_is_in_the_example() -> None:
    """`.env.example` names every variable that compose.yaml takes from its environment, and no other."""
    taken = set(re.findall(r"\$\{([A-Z_]+)", text(ROOT / "compose.yaml")))
    named = set(re.findall(r"^#?([A-Z_]+)=", text(ROOT / ".env.example"), re.MULTILINE))
    assert taken == named
    assert taken - OF_COMPOSE <= set().union(*map(fields, READERS))


def test_prometheus_reads_every_service() -> None:
    """Each service that serves metrics is a job, by its name and its port, in a network that Prometheus is in."""
    jobs = yaml.safe_load((ROOT / "monitoring" / "prometheus.yml").read_text())["scrape_configs"]
    listening = {
        service: given
        for service in COMPOSE["services"]
        for name, given in (COMPOSE["services"][service].get("environment") or {}).items()
        if name.endswith("_METRICS_LISTEN") and service != "facade-2"
    }
    read = {}
    for job in jobs:
        [names] = job["dns_sd_configs"]
        assert names["names"] == [job["job_name"]]
        read[job["job_name"]] = f"0.0.0.0:{names['port']}"
    assert read == listening
    networks = set(COMPOSE["services"]["prometheus"]["networks"])
    assert all(networks & set(COMPOSE["services"][service]["networks"]) for service in read)
