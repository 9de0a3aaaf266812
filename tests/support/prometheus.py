"""A real Prometheus on a loopback port, with the project's own configuration."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.ports import free_address
from tests.support.programs import needed
from tests.support.waiting import START_SECONDS, STEP_SECONDS, until

FOLDER = Path(__file__).parents[2] / "monitoring"


def configuration(folder: Path, targets: Mapping[str, str], token: str) -> Path:
    """Write monitoring/prometheus.yml into a folder, with these addresses in place of names, and a scrape a second."""
    settings = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    (folder / "token").write_text(token)
    settings["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    settings["rule_files"] = [str(FOLDER / "alerts.yml")]
    settings["scrape_configs"] = [job for job in settings["scrape_configs"] if job["job_name"] in targets]
    for job in settings["scrape_configs"]:
        assert job.pop("dns_sd_configs")
        job["authorization"]["credentials_file"] = str(folder / "token")
        job["static_configs"] = [{"targets": [targets[job["job_name"]]]}]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(settings))
    return path


class Prometheus:
    """Its interface."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.address = str(http.base_url)

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """Return what an expression gives now; fail where Prometheus refuses it."""
        response = await self._http.get("/api/v1/query", params={"query": expression})
        assert response.status_code == 200, f"{expression}: {response.text}"
        found: list[dict[str, Any]] = response.json()["data"]["result"]
        return found

    async def rules(self) -> list[dict[str, Any]]:
        """Return the alerts' rules as it has them."""
        response = await self._http.get("/api/v1/rules")
        (group,) = response.json()["data"]["groups"]
        found: list[dict[str, Any]] = group["rules"]
        return found


@asynccontextmanager
async def running_prometheus(folder: Path, targets: Mapping[str, str], token: str) -> AsyncIterator[Prometheus]:
    """Run one that reads the services at these addresses; it answers when this yields."""
    address = free_address()
    command = [
        needed("prometheus"),
        f"--config.file={configuration(folder, targets, token)}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=subprocess.STDOUT)
    try:
        async with httpx.AsyncClient(trust_env=False, base_url=f"http://{address}", timeout=STEP_SECONDS) as http:

            async def is_ready() -> bool:
                assert process.returncode is None, (folder / "prometheus.log").read_text()
                try:
                    return (await http.get("/-/ready")).status_code == 200
                except httpx.TransportError:
                    return False

            await until(is_ready, "Prometheus is ready", seconds=START_SECONDS)
            yield Prometheus(http)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
