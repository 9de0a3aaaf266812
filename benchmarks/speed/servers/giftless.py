"""giftless: https://github.com/datopian/giftless, by gunicorn, on local files, open to all."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.speed import programs
from benchmarks.speed.client import Site
from benchmarks.speed.servers.server import Missing, Server
from tests.support.outside import Outside
from tests.support.ports import free_ports

# Its wheel names none of the packages that it needs. These are the bounds of its own sources, but for marshmallow and
# PyJWT, newer versions of which it does not work with.
_REQUIREMENTS = [
    "giftless",
    "gunicorn",
    "cachetools~=5.3",
    "figcan==0.0.*",
    "flask~=2.3",
    "flask-classful~=0.16",
    "flask-marshmallow~=0.15",
    "importlib-metadata",
    "marshmallow<4",
    "pyjwt>=2.4,<2.10",
    "python-dateutil~=2.8",
    "python-dotenv~=1.0",
    "pyyaml~=6.0",
    "typing-extensions~=4.9",
    "webargs~=8.3",
    "werkzeug~=3.0",
]
_WORKERS = 2
_REQUEST_SECONDS = 600


class Giftless(Server):
    """It takes whoever comes for one who may write, so it is spared the work of finding out who that is."""

    name = "giftless"

    def __init__(self, programs_folder: Path) -> None:
        self._outside = Outside(programs_folder / "giftless")

    def install(self) -> str:
        """Make a virtual environment of its own. Raises `Missing`."""
        try:
            if not self._outside.folder.exists():
                Outside.make(self._outside.folder, *_REQUIREMENTS)
            told = programs.output_of(
                self._outside.python,
                "-c",
                "from importlib.metadata import version as v; import flask_classful;"
                ' print(f\'giftless {v("giftless")}, gunicorn {v("gunicorn")}\')',
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing(f"pip could not install it: {error}") from error
        return told

    @contextmanager
    def running(self, data: Path) -> Iterator[Site]:
        """Run it with two workers."""
        objects = data / "objects"
        # Each worker would make it, and one that comes second ends with all.
        objects.mkdir(parents=True, exist_ok=True)
        [port] = free_ports(1)
        origin = f"http://127.0.0.1:{port}"
        # By its default an action ends after a minute, in which it does not send what is asked for here.
        authority = {"private_key": secrets.token_urlsafe(32), "default_lifetime": _REQUEST_SECONDS}
        configuration = {
            "LEGACY_ENDPOINTS": False,
            "AUTH_PROVIDERS": ["giftless.auth.allow_anon:read_write"],
            "PRE_AUTHORIZED_ACTION_PROVIDER": {"options": authority},
            "TRANSFER_ADAPTERS": {"basic": {"options": {"storage_options": {"path": str(objects)}}}},
        }
        command: list[str | Path] = [
            self._outside.folder / "bin" / "gunicorn",
            f"--workers={_WORKERS}",
            f"--bind=127.0.0.1:{port}",
        ]
        command += [f"--timeout={_REQUEST_SECONDS}", "giftless.wsgi_entrypoint:app"]
        environment = {"GIFTLESS_CONFIG_STR": json.dumps(configuration), "PYTHONPATH": ""}
        with programs.server(command, origin, data, environment) as pid:
            yield Site(origin, f"{origin}/demo/assets.git/info/lfs", pid)
