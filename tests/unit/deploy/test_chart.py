"""The Helm chart, rendered from its examples of values."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.facade.settings import FacadeSettings
from services.locks.settings import LocksSettings
from services.ssh.settings import SshSettings
from services.storage.settings import StorageSettings
from tests.support.chart import (
    CHART,
    EXAMPLES,
    NAMESPACE,
    RELEASE,
    ROOT,
    Manifest,
    environment,
    of_kind,
    pods,
    refusal,
    rendered,
    secret_files,
)
from tests.support.programs import needed
from tests.support.readers import fields, is_secret

needed("helm")

VOLUME, BUCKET, EVERYTHING = (CHART / "ci" / f"{name}.yaml" for name in ("volume", "bucket", "everything"))
# Read before the settings, and by libraries.
OF_OTHERS = {"TOWPATH_SECRETS_DIR", "AWS_SHARED_CREDENTIALS_FILE", "AWS_REGION", "PGSSLROOTCERT"}
# Decided by the chart, or of no use in a cluster.
NOT_CHOSEN = {
    *("listen", "facade_metrics_listen", "locks_listen", "locks_metrics_listen", "storage_listen"),
    *("storage_metrics_listen", "ssh_listen", "ssh_metrics_listen", "public_url", "trusted_proxies"),
    *("https_certificate", "https_key", "storage_address", "locks_address", "locks_database_url"),
    *("storage_database_url", "storage_url", "drain_seconds", "tls_certificate", "tls_key", "tls_ca", "lifeline_fd"),
    *("heartbeat_fd", "ssh_facade_url", "ssh_users", "shared_storage_path", "shared_memory_path", "storage_folders"),
}
PORTS = {"facade": {8080, 9100}, "locks": {9002, 9100}, "storage": {9001, 9100}, "ssh": {2222, 9100}, "migrate": set()}

each_example = pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)


def every_pod() -> Iterator[tuple[str, str, Manifest]]:
    """Yield each pod of each example, after the names of both and its component."""
    for values in EXAMPLES:
        for component, pod in pods(rendered(values)).items():
            yield f"{values.stem}: {component}", component, pod


def _ports(manifest: Manifest, direction: str) -> set[int]:
    return {port["port"] for rule in manifest["spec"][direction] for port in rule.get("ports", [])}


def _peers(manifest: Manifest, direction: str, port: int) -> list[Mapping[str, Any]] | None:
    """Return who may use a port; None for everybody."""
    side = "from" if direction == "ingress" else "to"
    rules = [rule for rule in manifest["spec"][direction] if port in {each["port"] for each in rule.get("ports", [])}]
    assert rules, f"{manifest['metadata']['name']}: no rule for {port}"
    return None if any(side not in rule for rule in rules) else [peer for rule in rules for peer in rule[side]]


def _components(peers: list[Mapping[str, Any]] | None) -> set[str]:
    assert peers is not None
    labels = [peer["podSelector"]["matchLabels"] for peer in peers if "namespaceSelector" not in peer]
    return {each["app.kubernetes.io/component"] for each in labels}


def test_pods_keep_to_the_restricted_standard() -> None:
    """No root, no capability, no writable file system, no token of the cluster, and a bound on the memory."""
    for where, _, pod in every_pod():
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False, where
        assert spec["securityContext"]["runAsNonRoot"] is True, where
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, where
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), where
        kinds = {"emptyDir", "projected", "secret", "persistentVolumeClaim"}
        assert all(kinds & set(each) for each in spec["volumes"]), where
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, where
            assert security["readOnlyRootFilesystem"] is True, where
            assert security["capabilities"] == {"drop": ["ALL"]}, where
            assert not security.get("privileged"), where
            assert container["resources"]["limits"]["memory"], where


def test_pods_run_as_the_user_of_the_image() -> None:
    """The user and the group of a pod are those of the image, so that the files of its volumes are its own."""
    [user] = set(re.findall(r"^USER (\d+:\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)) - {"0:0"}
    for where, _, pod in every_pod():
        security = pod["spec"]["securityContext"]
        assert f"{security['runAsUser']}:{security['runAsGroup']}" == user, where
        assert security["fsGroup"] == security["runAsGroup"], where


def test_every_variable_is_a_setting_of_its_reader() -> None:
    """A container is given no variable that its program does not read, and each one once."""
    for where, component, pod in every_pod():
        for container in pod["spec"]["containers"]:
            names = [each["name"] for each in container.get("env", [])]
            assert len(names) == len(set(names)), where
            known = fields(component) if container["name"] != "sshd" else {}
            assert set(names) - OF_OTHERS <= known.keys(), where


def test_what_is_required_is_given() -> None:
    """A service is given each required setting by a variable, or by a file of the secrets."""
    for where, component, pod in every_pod():
        given = set(environment(pod["spec"]["containers"][0]))
        given |= {name.upper() for name in secret_files(pod)["secrets"]}
        if component == "migrate":
            assert given >= {"TOWPATH_DATABASE_URL", "TOWPATH_DATABASE_PASSWORD", "TOWPATH_ADMIN_TOKEN"}, where
            continue
        required = {name for name, field in fields(component).items() if field.is_required()}
        assert required | {"TOWPATH_SERVICE_SECRET", "TOWPATH_METRICS_TOKEN"} <= given, where


def test_secrets_are_files_that_only_their_reader_has() -> None:
    """No variable has a secret, and each file is a setting of its service, or the keys to the bucket."""
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for where, component, pod in every_pod():
        files = secret_files(pod)["secrets"] - {"towpath_objects_credentials"}
        secrets = {name.lower() for name, field in fields(component).items() if is_secret(field)}
        assert files <= secrets, where
        assert files == set(compose[component]["secrets"]) - {"towpath_s3_credentials"}, where
        [container] = [each for each in pod["spec"]["containers"] if each["name"] == component]
        variables = {name for name in environment(container) if not name.endswith("DATABASE_URL")}
        assert not {name.upper() for name in secrets} & variables, where
        assert all("valueFrom" not in each for each in container["env"]), where
        mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        assert mounts["secrets"] == environment(container)["TOWPATH_SECRETS_DIR"], where
        assert set(mounts) <= {each["name"] for each in pod["spec"]["volumes"]}, where


def test_no_url_of_a_database_has_a_password() -> None:
    """The password of the database comes from its file."""
    for values in EXAMPLES:
        urls = re.findall(r"postgresql://[^\s\"']+", json.dumps(rendered(values)))
        bare = {url.removesuffix("?ssl=verify-full") for url in urls}
        assert bare == {"postgresql://towpath@towpath-db-rw:5432/towpath"}, values


def test_generated_secrets_are_random() -> None:
    """No installation has the values of another, and each is long enough for its setting."""
    generated = of_kind(rendered(VOLUME), "Secret")[f"{RELEASE}-towpath-secrets"]
    again = of_kind(rendered(VOLUME, "facade.replicas=2"), "Secret")[f"{RELEASE}-towpath-secrets"]
    assert generated["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    values = list(generated["data"].values())
    assert len(set(values)) == len(values)
    assert not set(values) & set(again["data"].values())
    # 48 characters, in base64.
    assert all(len(value) == 64 for value in values)
    mounted: set[str] = set()
    for pod in pods(rendered(VOLUME)).values():
        mounted |= secret_files(pod)["secrets"]
    assert set(generated["data"]) == mounted - {"towpath_database_password"}
    assert of_kind(rendered(EVERYTHING), "Secret") == {}


@each_example
def test_probes_and_services_lead_to_ports(values: Path) -> None:
    """A probe or a service names a port that the container has, and the program listens there."""
    manifests = rendered(values)
    for component, pod in pods(manifests).items():
        named: dict[str, int] = {}
        for container in pod["spec"]["containers"]:
            ports = {each["name"]: each["containerPort"] for each in container.get("ports", [])}
            named |= ports
            listening = [value for name, value in environment(container).items() if name.endswith("LISTEN")]
            assert {int(each.rpartition(":")[2]) for each in listening if ":" in each} <= set(ports.values())
            for probe in (value for name, value in container.items() if name.endswith("Probe")):
                [asked] = [probe[way] for way in ("httpGet", "tcpSocket") if way in probe]
                assert asked["port"] in ports, component
                assert asked.get("path", "/readyz") in ("/healthz", "/readyz")
        assert set(named.values()) == PORTS[component]
        for service in of_kind(manifests, "Service").values():
            if service["spec"]["selector"]["app.kubernetes.io/component"] == component:
                assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
                assert {each["targetPort"] for each in service["spec"]["ports"]} <= set(named)


def test_an_outage_restarts_nothing() -> None:
    """Liveness asks the process alone; a facade stays where clients find it, as it waits for the others."""
    for where, component, pod in every_pod():
        if component == "migrate":
            continue
        container = pod["spec"]["containers"][0]
        ready = "/healthz" if component == "facade" else "/readyz"
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz", where
        assert container["readinessProbe"]["httpGet"]["path"] == ready, where
    for values in EXAMPLES:
        for name in ("locks", "storage"):
            service = of_kind(rendered(values), "Service")[f"{RELEASE}-towpath-{name}"]["spec"]
            assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True), values


def test_a_pod_has_time_to_stop() -> None:
    """A pod has more time than it pauses and drains."""
    for where, component, pod in every_pod():
        if component != "migrate":
            seconds = float(environment(pod["spec"]["containers"][0])["TOWPATH_DRAIN_SECONDS"])
            assert pod["spec"]["terminationGracePeriodSeconds"] >= seconds + 35, where


@each_example
def test_the_network_lets_each_call_through_and_nothing_else(values: Path) -> None:
    """Every port has a rule at both ends, and nobody but the callers is named in it."""
    manifests = rendered(values)
    policies = of_kind(manifests, "NetworkPolicy")
    asked: dict[tuple[str, int], set[str]] = {}
    for component, pod in pods(manifests).items():
        policy = policies[f"{RELEASE}-towpath-{component}"]
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        assert 53 in _ports(policy, "egress")
        text = json.dumps(environment(pod["spec"]["containers"][0]))
        for callee, port in re.findall(
            rf"dns:///{RELEASE}-towpath-(\w+)\.{NAMESPACE}\.svc\.cluster\.local:(\d+)", text
        ):
            assert callee in _components(_peers(policy, "egress", int(port)))
            asked.setdefault((callee, int(port)), set()).add(component)
        assert (5432 in _ports(policy, "egress")) == ("postgresql://" in text)
        # Prometheus alone reads metrics, where it is named; a migration is asked by nobody.
        expected = PORTS[component] - (set() if values == EVERYTHING else {9100})
        assert _ports(policy, "ingress") == expected
    assert asked == {("locks", 9002): asked["locks", 9002], ("storage", 9001): {"facade", "locks"}}
    for (callee, port), callers in asked.items():
        assert _components(_peers(policies[f"{RELEASE}-towpath-{callee}"], "ingress", port)) == callers
    bucket = _ports(policies[f"{RELEASE}-towpath-storage"], "egress") & {443, 8333}
    assert bucket == {VOLUME: set(), BUCKET: {443}, EVERYTHING: {8333}}[values]


def test_only_the_ingress_controller_reaches_the_facade() -> None:
    """The facade lets in the ingress controller, and the SSH service, which asks it for objects."""
    for values in (BUCKET, EVERYTHING):
        peers = _peers(of_kind(rendered(values), "NetworkPolicy")[f"{RELEASE}-towpath-facade"], "ingress", 8080)
        assert peers is not None
        assert len([peer for peer in peers if "namespaceSelector" in peer]) == 1
        assert _components(peers) == ({"ssh"} if values == EVERYTHING else set())


def test_a_switch_leaves_the_network_open() -> None:
    """A cluster that has policies of its own can do without those of the chart."""
    assert of_kind(rendered(VOLUME, "networkPolicy.enabled=false"), "NetworkPolicy") == {}


@each_example
def test_the_migration_comes_first(values: Path) -> None:
    """The migration follows all that it needs, and runs at installations and upgrades, never at rollbacks."""
    weights = {
        (each["kind"], each["metadata"]["name"]): int(each["metadata"]["annotations"]["helm.sh/hook-weight"])
        for each in rendered(values)
        if each["metadata"].get("annotations", {}).get("helm.sh/hook") == "pre-install,pre-upgrade"
    }
    job = weights.pop(("Job", f"{RELEASE}-towpath-migrate"))
    assert {kind for kind, _ in weights} == {"NetworkPolicy"} | ({"Secret"} if values != EVERYTHING else set())
    assert all(weight < job for weight in weights.values())
    assert "rollback" not in json.dumps(rendered(values))


def test_services_start_as_in_the_stack() -> None:
    """The commands of the chart are those of compose.yaml."""
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for where, component, pod in every_pod():
        assert pod["spec"]["containers"][0]["command"] == compose[component]["command"], where


def test_autoscaling_decides_how_many_there_are() -> None:
    """A number of replicas beside the autoscaling would be set again by each upgrade."""
    manifests = rendered(EVERYTHING)
    scaled = of_kind(manifests, "HorizontalPodAutoscaler")
    deployments = of_kind(manifests, "Deployment")
    assert set(scaled) == {f"{RELEASE}-towpath-{name}" for name in ("facade", "storage")}
    assert {name for name, each in deployments.items() if "replicas" not in each["spec"]} == set(scaled)
    assert {each["spec"]["scaleTargetRef"]["name"] for each in scaled.values()} == set(scaled)


def test_a_node_can_be_drained() -> None:
    """One replica of each service may be away at a time, also where there is only one."""
    for values in EXAMPLES:
        budgets = of_kind(rendered(values), "PodDisruptionBudget")
        away = {name: each["spec"]["maxUnavailable"] for name, each in budgets.items()}
        assert away == {f"{RELEASE}-towpath-{name}": 1 for name in ("facade", "locks", "storage")}, values


def test_a_volume_has_one_writer_at_a_time() -> None:
    """A volume may be of one node, so its writer stops first; with a bucket a service is replaced without a gap."""
    name = f"{RELEASE}-towpath-storage"
    assert of_kind(rendered(VOLUME), "Deployment")[name]["spec"]["strategy"] == {"type": "Recreate"}
    assert of_kind(rendered(BUCKET), "Deployment")[name]["spec"]["strategy"]["type"] == "RollingUpdate"
    [claim] = of_kind(rendered(VOLUME), "PersistentVolumeClaim").values()
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert of_kind(rendered(BUCKET), "PersistentVolumeClaim") == {}


def test_an_ingress_bounds_no_transfer() -> None:
    """The annotations of ingress-nginx say what deploy/nginx/towpath.conf says, and those of the user stay."""
    [ingress] = of_kind(rendered(BUCKET), "Ingress").values()
    prefix = "nginx.ingress.kubernetes.io/"
    ours = {
        name.removeprefix(prefix): value
        for name, value in ingress["metadata"]["annotations"].items()
        if name.startswith(prefix)
    }
    assert (ours.pop("proxy-body-size"), ours.pop("proxy-request-buffering")) == ("0", "off")
    configured = (ROOT / "deploy" / "nginx" / "towpath.conf").read_text()
    for name, value in ours.items():
        directive = name.replace("-", "_")
        assert re.search(rf"^{directive} {value}s?;$", configured, re.MULTILINE), name
    assert ingress["metadata"]["annotations"]["cert-manager.io/cluster-issuer"] == "letsencrypt"
    facade = pods(rendered(BUCKET))["facade"]["spec"]["containers"][0]
    assert environment(facade)["TOWPATH_PUBLIC_URL"] == "https://lfs.example.org"


def test_monitoring_is_that_of_the_stack() -> None:
    """The chart has the alerts and the dashboard of the stack, for jobs of the same names."""
    manifests = rendered(EVERYTHING)
    [rule] = of_kind(manifests, "PrometheusRule").values()
    assert rule["spec"] == yaml.safe_load((ROOT / "monitoring" / "alerts.yml").read_text())
    [dashboard] = of_kind(manifests, "ConfigMap").values()
    assert dashboard["data"]["towpath.json"] == (ROOT / "monitoring/grafana/dashboards/towpath.json").read_text()
    [monitor] = of_kind(manifests, "ServiceMonitor").values()
    assert monitor["spec"]["jobLabel"] == "app.kubernetes.io/component"
    wanted = monitor["spec"]["selector"]["matchLabels"]
    jobs = yaml.safe_load((ROOT / "monitoring" / "prometheus.yml").read_text())["scrape_configs"]
    scraped = [
        each["metadata"]["labels"]["app.kubernetes.io/component"]
        for each in of_kind(manifests, "Service").values()
        if wanted.items() <= each["metadata"]["labels"].items()
        and "metrics" in {port["name"] for port in each["spec"]["ports"]}
    ]
    # The cache of a second office stands in front of a site, and is no part of it.
    assert sorted([*scraped, "cache"]) == sorted(job["job_name"] for job in jobs)


def test_the_settings_of_a_service_may_be_chosen() -> None:
    """The schema has each setting of a service, except secrets and what the chart decides."""
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    for component, reader in (
        ("facade", FacadeSettings),
        ("locks", LocksSettings),
        ("storage", StorageSettings),
        ("ssh", SshSettings),
    ):
        expected = {name for name, field in reader.model_fields.items() if not is_secret(field)}
        assert set(schema[component]["properties"]["settings"]["properties"]) == expected - NOT_CHOSEN, component
    values = environment(pods(rendered(EVERYTHING))["facade"]["spec"]["containers"][0])
    assert (values["TOWPATH_BODY_BYTES"], values["TOWPATH_REALM"]) == ("20000000", "Studio")
    values = environment(pods(rendered(EVERYTHING))["storage"]["spec"]["containers"][0])
    assert values["TOWPATH_STORAGE_QUOTA"] == "1000000000000"
    assert environment(pods(rendered(EVERYTHING))["ssh"]["spec"]["containers"][0])["TOWPATH_SSH_TRANSFER"] == "false"


LEAST: Manifest = {"database": {"host": "db", "existingSecret": "db"}}
HOST: Manifest = {"host": "lfs.example.org"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "database.host: expected the host of Postgres"),
        ({"database": {"host": "db"}}, "database.existingSecret: expected the name of a Secret"),
        ({"database": {**LEAST["database"], "ssl": "verify-full"}}, "database.caSecret: expected the name of a Secret"),
        ({"storage": {"replicas": 2}}, "storage.replicas: expected 1 without objects.url, got 2"),
        ({"storage": {"autoscaling": {"enabled": True}}}, "storage.autoscaling.enabled: expected false without"),
        ({"objects": {"credentials": {"existingSecret": "x"}}}, "objects.credentials.existingSecret: expected nothing"),
        ({"objects": {"url": "file:///srv"}}, "objects.url: expected a bucket"),
        ({"objects": {"url": "s3://b", "persistence": {"existingClaim": "x"}}}, "expected nothing with objects.url"),
        ({"ingress": {"enabled": True}, "facade": {"trustedProxies": "10.0.0.0/8"}}, "ingress.host: expected the host"),
        ({"ingress": {"enabled": True, **HOST}}, "facade.trustedProxies: expected the addresses"),
        ({"httpRoute": {"enabled": True, **HOST}}, "httpRoute: expected host and parentRefs"),
        ({"httpRoute": {"enabled": True}, "ingress": {"enabled": True}}, "httpRoute.enabled: expected false"),
        ({"ssh": {"enabled": True}}, "ssh.hostKeysSecret: expected the name of a Secret"),
        ({"monitoring": {"serviceMonitor": {"enabled": True}}}, "networkPolicy.prometheus: expected the pods"),
    ],
    ids=lambda part: part.split(":")[0] if isinstance(part, str) else None,
)
def test_what_cannot_work_is_refused(values: Manifest, message: str) -> None:
    """The message names the value, and what is expected of it."""
    assert message in refusal(values if "database" in values or not values else {**LEAST, **values})


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"facade": {"settings": {"request_in_flight": 1}}}, "request_in_flight"),
        ({"storage": {"setting": {}}}, "setting"),
        ({"secrets": {"signingKey": "x"}}, "signingKey"),
        ({"database": {**LEAST["database"], "password": "x"}}, "password"),
        ({"facade": {"resources": {"limits": {"cpu": 1, "memory": None}}}}, "memory"),
    ],
    ids=lambda part: part if isinstance(part, str) else None,
)
def test_unknown_values_are_refused(values: Manifest, name: str) -> None:
    """A wrong name would be a value that has no effect; a secret is no value."""
    assert name in refusal({**LEAST, **values})
