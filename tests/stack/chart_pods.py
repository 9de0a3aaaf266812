"""The pods of the chart, run by the container engine as a kubelet would run them.

Each container gets the command, variables, user, rights, memory and files of its manifest, and answers to the names of
the Services that select its pod. The scheduler, the proxies of Services and the network policies have no part in it.
"""

import base64
import json
import subprocess
from dataclasses import dataclass, field
from typing import Any

from tests.stack.compose import docker
from tests.support.chart import NAMESPACE, Manifest, of_kind
from tests.support.waiting import START_SECONDS, blocking_until

_MIB = 2**20
_UNITS = {"Mi": _MIB, "Gi": 1024 * _MIB}
_SECONDS = 120
# Writes files as the kubelet does: those of root, for the group of the pod.
_WRITE = """
import json, os, sys
group, folders = json.load(sys.stdin)
for folder, files in folders.items():
    os.chown(folder, 0, group)
    os.chmod(folder, 0o2775)
    for name, (text, mode) in files.items():
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chown(path, 0, group)
        os.chmod(path, mode)
"""


@dataclass
class Cluster:
    """The pods of one release, in a network of their own."""

    name: str
    image: str
    manifests: tuple[Manifest, ...]
    secrets: dict[str, dict[str, str]]
    """The Secrets that are the operator's, by name and key."""
    containers: dict[str, list[str]] = field(default_factory=dict)
    """The containers that run, by component."""
    volumes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Add the Secrets of the chart, and make the network."""
        for name, secret in of_kind(self.manifests, "Secret").items():
            self.secrets[name] = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
        docker("network", "create", self.name)

    def remove(self) -> None:
        """Remove all containers, volumes and the network."""
        for container in (each for replicas in self.containers.values() for each in replicas):
            docker("rm", "--force", "--volumes", container)
        for volume in self.volumes:
            docker("volume", "rm", "--force", volume)
        docker("network", "rm", self.name)

    def run(self, component: str, *arguments: str) -> None:
        """Run a container that is not of the chart, under the name of the component."""
        container = docker("run", "--detach", f"--network={self.name}", f"--network-alias={component}", *arguments)
        self.containers[component] = [container.strip()]

    def pod(self, component: str) -> Manifest:
        """Return the template of a component's pods."""
        [template] = [
            each["spec"]["template"]
            for each in self.manifests
            if each["kind"] in ("Deployment", "Job")
            and each["metadata"]["labels"]["app.kubernetes.io/component"] == component
        ]
        return dict(template)

    def start(self, component: str, count: int) -> None:
        """Start so many pods."""
        self.containers[component] = [self._create(component, number) for number in range(count)]
        docker("start", *self.containers[component])

    def _create(self, component: str, number: int) -> str:
        pod = self.pod(component)
        spec, security = pod["spec"], pod["spec"]["securityContext"]
        [container] = spec["containers"]
        own = container["securityContext"]
        mounts = self._volumes(component, spec, container)
        return docker(
            "create",
            f"--name={self.name}-{component}-{number}",
            f"--network={self.name}",
            *(f"--network-alias={name}" for name in self._names(pod)),
            f"--user={security['runAsUser']}:{security['runAsGroup']}",
            f"--group-add={security['fsGroup']}",
            *(f"--cap-drop={each}" for each in own["capabilities"]["drop"]),
            *(["--read-only"] if own["readOnlyRootFilesystem"] else []),
            *([] if own["allowPrivilegeEscalation"] else ["--security-opt=no-new-privileges:true"]),
            f"--memory={_bytes(container['resources']['limits']['memory'])}",
            f"--stop-timeout={spec.get('terminationGracePeriodSeconds', 30)}",
            *(f"--env={each['name']}={each['value']}" for each in container["env"]),
            *mounts,
            *(["--publish=127.0.0.1::8080"] if component == "facade" else []),
            self.image,
            *container["command"],
        ).strip()

    def _names(self, pod: Manifest) -> list[str]:
        labels = pod["metadata"]["labels"]
        services = of_kind(self.manifests, "Service")
        selecting = [name for name, each in services.items() if each["spec"]["selector"].items() <= labels.items()]
        return [f"{name}.{NAMESPACE}.svc.cluster.local" for name in selecting]

    def _volumes(self, component: str, spec: Manifest, container: Manifest) -> list[str]:
        paths = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        options, folders, writing = [], {}, []
        for volume in spec["volumes"]:
            path = paths[volume["name"]]
            if "emptyDir" in volume:
                options.append(f"--tmpfs={path}:mode=1777,size={_bytes(volume['emptyDir']['sizeLimit'])}")
                continue
            # Pods of a component have the same files, and share what is claimed.
            name = f"{self.name}-{component}-{volume['name']}"
            if name not in self.volumes:
                docker("volume", "create", name)
                self.volumes.append(name)
            writing.append(f"--volume={name}:/{volume['name']}")
            folders[f"/{volume['name']}"] = self._files(volume)
            options.append(f"--volume={name}:{path}{'' if 'persistentVolumeClaim' in volume else ':ro'}")
        command = ["docker", "run", "--rm", "--interactive", "--user=0:0", "--network=none", *writing, self.image]
        subprocess.run(
            [*command, "python", "-c", _WRITE],
            input=json.dumps([spec["securityContext"]["fsGroup"], folders]),
            text=True,
            check=True,
            timeout=_SECONDS,
        )
        return options

    def _files(self, volume: Manifest) -> dict[str, tuple[str, int]]:
        files: dict[str, tuple[str, int]] = {}
        for source in volume.get("projected", {}).get("sources", []):
            values = self.secrets[source["secret"]["name"]]
            for item in source["secret"]["items"]:
                files[item["path"]] = (values[item["key"]], volume["projected"]["defaultMode"])
        return files

    def probe(self, container: str, component: str, kind: str) -> bool:
        """Ask a container what a probe of its manifest asks."""
        [manifest] = self.pod(component)["spec"]["containers"]
        asked: dict[str, Any] = manifest[f"{kind}Probe"]["httpGet"]
        [port] = [each["containerPort"] for each in manifest["ports"] if each["name"] == asked["port"]]
        command = ["docker", "exec", container, "probe.sh", str(port), asked["path"]]
        return subprocess.run(command, check=False, capture_output=True, timeout=_SECONDS).returncode == 0

    def until_ready(self, component: str) -> None:
        """Wait until every container of a component has started and is ready."""
        for kind in ("startup", "readiness"):
            self.until(component, kind, expected=True)

    def until(self, component: str, kind: str, *, expected: bool) -> None:
        """Wait until a probe of every container of a component says what is expected."""

        def said() -> bool:
            return all(self.probe(each, component, kind) is expected for each in self.containers[component])

        blocking_until(said, f"{component}: {kind} is {expected}", seconds=START_SECONDS)


def _bytes(quantity: str) -> int:
    return int(quantity[:-2]) * _UNITS[quantity[-2:]]
