"""A real S3 server on loopback ports: SeaweedFS, from a wheel."""

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import httpx
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from services.storage.backends.object_store.backend import ObjectStoreBackend
from services.storage.backends.object_store.opening import open_object_store
from tests.support.ports import free_ports
from tests.support.snippets import snippet
from tests.support.waiting import START_SECONDS, STEP_SECONDS, until

if TYPE_CHECKING:  # only the types of boto3's client, which are made at run time
    from types_boto3_s3 import S3Client

_PROGRAM = Path(sys.executable).parent / "weed"
_REGION = "us-east-1"


BUCKET = "objects"


def _actions() -> list[str]:
    """Return what docs/operations.md lets the service do: all that it needs, and in one bucket."""
    [identity] = json.loads(snippet("operations.md", "seaweedfs identity"))["identities"]
    return [action.replace("BUCKET", BUCKET) for action in identity["actions"]]


class SeaweedFS:
    """One server with all its parts, a bucket `objects`, and a user that may do there what the service does."""

    def __init__(self, folder: Path, *, volumes: int = 50) -> None:
        self.folder = folder
        self.access_key = secrets.token_hex(10)
        self.secret_key = secrets.token_hex(20)
        self._admin = (secrets.token_hex(10), secrets.token_hex(20))
        self._ports = free_ports(8)
        self.port = self._ports[0]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._volumes = volumes
        self._process: asyncio.subprocess.Process | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by which this user's credentials are found, and no others."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_CONFIG_FILE": str(self.folder / "none"),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.folder / "none"),
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def url(self, prefix: str = "", *, bucket: str = BUCKET, endpoint: str | None = None) -> str:
        """Return the storage URL of a prefix in the bucket, or in another."""
        return f"s3://{bucket}/{prefix}?endpoint={endpoint or self.endpoint}&region={_REGION}"

    async def backend(self, prefix: str = "", *, endpoint: str | None = None) -> ObjectStoreBackend:
        """Open the backend, with the credentials that the environment has."""
        return await open_object_store(self.url(prefix, endpoint=endpoint))

    def client(self) -> "S3Client":
        """Return a client of this user; it works in the calling thread."""
        return self._client(self.access_key, self.secret_key)

    def _client(self, access_key: str, secret_key: str) -> "S3Client":
        return boto3.session.Session(access_key, secret_key, region_name=_REGION).client(
            "s3",
            endpoint_url=self.endpoint,
            config=Config(
                read_timeout=STEP_SECONDS,
                retries={"total_max_attempts": 1},
                proxies={},
                s3={"addressing_style": "path"},
            ),
        )

    async def start(self) -> None:
        """Start it, or start it again with what it had; it takes objects when this returns."""
        users = [("towpath", (self.access_key, self.secret_key), _actions()), ("admin", self._admin, ["Admin"])]
        identities = [
            {"name": name, "credentials": [{"accessKey": access, "secretKey": secret}], "actions": actions}
            for name, (access, secret), actions in users
        ]
        settings = self.folder / "s3.json"
        settings.touch(mode=0o600)
        settings.write_text(json.dumps({"identities": identities}))
        (self.folder / "data").mkdir(exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command(settings), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        await until(self._is_ready, "SeaweedFS is ready", seconds=START_SECONDS)

    async def kill(self) -> None:
        """End it without a word."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _command(self, settings: Path) -> list[str]:
        s3, master, volume, filer, *rpc = self._ports
        return [
            str(_PROGRAM),
            "-logtostderr=true",
            "server",
            f"-dir={self.folder / 'data'}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-master.port={master}",
            f"-master.port.grpc={rpc[0]}",
            "-master.telemetry=false",
            # It elects itself.
            "-master.electionTimeout=1s",
            "-volume.preStopSeconds=0",
            "-master.volumeSizeLimitMB=64",
            f"-volume.port={volume}",
            f"-volume.port.grpc={rpc[1]}",
            f"-volume.max={self._volumes}",
            "-volume.minFreeSpace=0",
            f"-filer.port={filer}",
            f"-filer.port.grpc={rpc[2]}",
            "-s3",
            f"-s3.port={s3}",
            f"-s3.port.grpc={rpc[3]}",
            f"-s3.config={settings}",
            "-s3.iam=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]

    async def _is_ready(self) -> bool:
        # Its parts find one another late: what counts is that it takes an object.
        with suppress(httpx.TransportError):
            async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
                await http.get(f"{self.endpoint}/")
            return await asyncio.to_thread(self._takes_an_object)
        return False

    def _takes_an_object(self) -> bool:
        admin, client = self._client(*self._admin), self.client()
        try:
            with suppress(admin.exceptions.BucketAlreadyOwnedByYou, admin.exceptions.BucketAlreadyExists):
                admin.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="readiness", Body=b"object")
        except (BotoCoreError, ClientError):
            return False
        finally:
            admin.close()
            client.close()
        return True


@dataclass(frozen=True)
class Prefix:
    """A part of the bucket that one installation has for itself."""

    server: SeaweedFS
    prefix: str
    transfer: str = "auto"
    """The transfer mode of this installation's objects (`storage_transfer`)."""

    @property
    def url(self) -> str:
        """Its storage URL."""
        return self.server.url(self.prefix)

    def names(self) -> dict[str, int]:
        """Return the names and sizes of what is in place."""
        found: dict[str, int] = {}
        with closing(self.server.client()) as client:
            for page in client.get_paginator("list_objects_v2").paginate(
                Bucket=BUCKET, Prefix=f"{self.prefix}/objects/"
            ):
                found |= {entry["Key"].rpartition("/")[2]: entry["Size"] for entry in page.get("Contents", [])}
        return found

    def incoming(self) -> list[str]:
        """Return the names to which uploads in parts go on."""
        with closing(self.server.client()) as client:
            listed = client.list_multipart_uploads(Bucket=BUCKET, Prefix=f"{self.prefix}/objects/")
        return [entry["Key"].rpartition("/")[2] for entry in listed.get("Uploads", [])]

    def put(self, name: str, data: bytes) -> None:
        """Put bytes under a name, whatever is there."""
        with closing(self.server.client()) as client:
            client.put_object(Bucket=BUCKET, Key=self._key(name), Body=data)

    def delete(self, name: str) -> None:
        """Delete what is under a name."""
        with closing(self.server.client()) as client:
            client.delete_object(Bucket=BUCKET, Key=self._key(name))

    def delete_all(self) -> None:
        """Delete everything that is there, as an operator does with a store that is used no more."""
        with closing(self.server.client()) as client:
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.prefix}/"):
                client.delete_objects(
                    Bucket=BUCKET, Delete={"Objects": [{"Key": entry["Key"]} for entry in page.get("Contents", [])]}
                )

    def _key(self, name: str) -> str:
        return f"{self.prefix}/objects/{name[:2]}/{name[2:4]}/{name}"


@asynccontextmanager
async def running_seaweedfs(folder: Path, *, volumes: int = 50) -> AsyncIterator[SeaweedFS]:
    """Run one that keeps its data in a folder."""
    server = SeaweedFS(folder, volumes=volumes)
    try:
        await server.start()
        yield server
    finally:
        await server.kill()
