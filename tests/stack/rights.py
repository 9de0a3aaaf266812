"""The rules that every container of a stack is held to: its rights, the files that it writes, no visible secret."""

import re
from pathlib import Path

from tests.stack.compose import ComposeStack, docker, inspect


def require_no_privileges(container: str) -> None:
    """Hold that no process of a container runs as root, and that none can gain a privilege."""
    pids = [line.split()[0] for line in docker("top", container, "-eo", "pid,user").splitlines()[1:]]
    assert pids
    for pid in pids:
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
        )
        assert "0" not in status["Uid"].split()
        assert int(status["CapEff"], 16) == 0
        assert int(status["CapBnd"], 16) == 0
        assert status["NoNewPrivs"] == "1"


def require_only_volumes_written(container: str) -> None:
    """Hold that the root file system is read-only, and that nothing but mount points was made in it."""
    assert inspect(container)["HostConfig"]["ReadonlyRootfs"]
    mounts = [mount["Destination"] for mount in inspect(container)["Mounts"]]
    changed = [line.split(" ", 1)[1] for line in docker("diff", container).splitlines()]
    # The engine itself makes the points where volumes, secrets and memory are mounted, and the folders above them.
    points = [*mounts, "/run/secrets", "/tmp", "/var/run", "/run/postgresql"]  # noqa: S108 - a mount point
    assert [path for path in changed if not any(point.startswith(path) for point in points)] == []


def random_texts(stack: ComposeStack) -> list[str]:
    """Return what is secret in the secrets: all of a file, or the keys in it."""
    secrets = stack.secrets()
    assert len(secrets) >= 5
    found = {name: re.findall(r"[0-9a-f]{64}", text) for name, text in secrets.items()}
    assert [name for name, texts in found.items() if not texts] == []
    return [text for texts in found.values() for text in texts]


def published_hosts(container: str) -> set[str]:
    """Return the addresses of the host on which a container's ports are published."""
    ports = inspect(container)["NetworkSettings"]["Ports"] or {}
    return {binding["HostIp"] for bindings in ports.values() for binding in bindings or ()}
