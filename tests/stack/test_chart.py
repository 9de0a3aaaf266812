"""The chart's pods, run by the container engine: they start, serve, wait out an outage, and stop in their time."""

import json
import os
from collections.abc import Iterator

import httpx
import pytest

from tests.stack.chart_pods import Cluster
from tests.stack.compose import ComposeStack, docker
from tests.stack.rights import require_no_privileges
from tests.support.chart import CHART, RELEASE, of_kind, rendered
from tests.support.commands import finished
from tests.support.http import Client, content, oid_of
from tests.support.waiting import STEP_SECONDS

IMAGE = "towpath:local"
PASSWORD = "a-password-of-the-database"
REPLICAS = {"storage": 1, "locks": 2, "facade": 2}


@pytest.fixture(scope="module")
def cluster(stack: ComposeStack) -> Iterator[Cluster]:  # noqa: ARG001 - it has built the image
    """Everything that the least values make, beside a Postgres."""
    secrets = {"towpath-db-app": {"password": PASSWORD}}
    made = Cluster(f"towpath-chart-{os.getpid()}", IMAGE, rendered(CHART / "ci" / "volume.yaml"), secrets)
    try:
        settings = {"POSTGRES_USER": "towpath", "POSTGRES_DB": "towpath", "POSTGRES_PASSWORD": PASSWORD}
        made.run("towpath-db-rw", *(f"--env={name}={value}" for name, value in settings.items()), "postgres:18")
        made.start("migrate", 1)
        [migration] = made.containers["migrate"]
        assert docker("wait", migration).strip() == "0", docker("logs", migration)
        for component, count in REPLICAS.items():
            made.start(component, count)
        for component in REPLICAS:
            made.until_ready(component)
        yield made
    finally:
        made.remove()


def towpath(cluster: Cluster, *arguments: str) -> dict[str, str]:
    """Run a command of administration in the lock service, as NOTES.txt says."""
    command = ["docker", "exec", cluster.containers["locks"][0], "towpath", *arguments, "--json"]
    ended = finished(command)
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout or "{}") or {})


def origin(cluster: Cluster, number: int) -> str:
    """Return where a facade is reached."""
    return f"http://{docker('port', cluster.containers['facade'][number], '8080').splitlines()[0].strip()}"


def test_the_replicas_are_those_of_the_manifests(cluster: Cluster) -> None:
    """The values ask for as many as run here."""
    deployments = of_kind(cluster.manifests, "Deployment")
    asked = {name.removeprefix(f"{RELEASE}-towpath-"): each["spec"]["replicas"] for name, each in deployments.items()}
    assert asked == REPLICAS


@pytest.mark.parametrize("component", REPLICAS)
def test_no_pod_has_a_privilege(component: str, cluster: Cluster) -> None:
    """As a kubelet would run it."""
    for container in cluster.containers[component]:
        require_no_privileges(container)


async def test_a_file_and_a_lock_go_through_any_facade(cluster: Cluster) -> None:
    """A facade gives what another one took, and the services find each other by the names of their Services."""
    towpath(cluster, "repo", "add", "studio/film")
    towpath(cluster, "user", "add", "carol")
    token = towpath(cluster, "token", "add", "carol", "--name", "tests")["secret"]
    towpath(cluster, "grant", "carol", "studio/film", "--role", "write")
    data = content("the chart", 3_000_000)
    async with (
        Client(f"{origin(cluster, 0)}/studio/film", "carol", token) as first,
        Client(f"{origin(cluster, 1)}/studio/film", "carol", token) as second,
    ):
        assert (await first.upload(data)).status_code == 200
        assert (await second.download(oid_of(data), len(data))).content == data
        assert (await first.lock("cover.psd")).status_code == 201
        assert (await second.lock("cover.psd")).status_code == 409


def test_an_outage_of_postgres_restarts_nothing(cluster: Cluster) -> None:
    """Services are alive and not ready, facades stay where clients find them, and all go on by themselves."""
    [database] = cluster.containers["towpath-db-rw"]
    docker("stop", database)
    for component in ("locks", "storage"):
        cluster.until(component, "readiness", expected=False)
    for component in REPLICAS:
        for container in cluster.containers[component]:
            assert cluster.probe(container, component, "liveness")
    for container in cluster.containers["facade"]:
        assert cluster.probe(container, "facade", "readiness")
    docker("start", database)
    for component in REPLICAS:
        cluster.until(component, "readiness", expected=True)


def test_pods_stop_in_their_time(cluster: Cluster) -> None:
    """The engine kills what takes longer than the grace period: the status tells. One of two facades serves on."""
    for component in ("facade", "locks"):
        container = cluster.containers[component][1]
        docker("stop", container)
        assert docker("inspect", "--format={{.State.ExitCode}}", container).strip() == "0"
    answer = httpx.get(f"{origin(cluster, 0)}/readyz", trust_env=False, timeout=STEP_SECONDS)
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")
