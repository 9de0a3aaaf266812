"""A unit of systemd, run by its own words: its commands, its variables, its secrets and its signals, without systemd.

What systemd does beside that (restarts of what has failed, and what the unit forbids) is not done here.
"""

import re
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.starters import Starter

ROOT = Path(__file__).parents[2]
PROGRAMS = "/opt/towpath/bin"
"""The folder of the programs that the units name."""

CONFIGURATION = "/etc/towpath"
_UNIT = {"min": 60.0, "s": 1.0, "": 1.0}


def settings_of(unit: str) -> list[tuple[str, str]]:
    """Return the settings of a unit of `deploy/systemd`, in order, as names and values."""
    lines = (ROOT / "deploy" / "systemd" / unit).read_text().splitlines()
    parts = (line.partition("=") for line in lines if line and line[0] not in "#[")
    return [(name, value) for name, _, value in parts]


@dataclass
class Host:
    """A host, in a folder: state, run and secrets of each unit as systemd provides them, and their user."""

    folder: Path
    user: Starter
    programs: Mapping[str, Sequence[str]]
    """Commands that stand for the programs of the units, by their names."""
    configuration: Path = field(init=False)
    units: "list[Unit]" = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the folder that stands for /etc/towpath."""
        self.configuration = self.folder / "etc"
        self.configuration.mkdir()

    def unit(self, name: str) -> "Unit":
        """Return a unit of this host, by its name without `.service`."""
        self.units.append(Unit(f"{name}.service", self))
        return self.units[-1]

    def configure(self, name: str, settings: Mapping[str, str], secrets: Mapping[str, str]) -> None:
        """Write the variables and the secrets of a unit, as an operator does."""
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.configuration / f"{name}.env").write_text(text)
        (self.configuration / f"{name}.secrets").mkdir()
        for key, value in secrets.items():
            (self.configuration / f"{name}.secrets" / key).write_text(value)

    def resolved(self, unit: str, text: str) -> str:
        """Return a value with its specifiers and its paths resolved."""
        places = {"S": self.folder / "lib", "t": self.folder / "run", "d": self.folder / "credentials" / unit}
        text = re.sub(r"%(.)", lambda found: str(places[found[1]]), text)
        return text.replace(CONFIGURATION, str(self.configuration))


class Unit:
    """A unit that is started, restarted and stopped as its file says."""

    def __init__(self, name: str, host: Host) -> None:
        self.name, self.host = name, host
        self.settings = settings_of(name)
        self.process: subprocess.Popen[bytes] | None = None

    def all(self, name: str) -> list[str]:
        """Return the values of a setting, resolved."""
        return [self.host.resolved(self.name, value) for key, value in self.settings if key == name]

    def one(self, name: str) -> str:
        """Return the one value of a setting."""
        [value] = self.all(name)
        return value

    def seconds(self, name: str) -> float:
        """Return a setting that is a time."""
        found = re.fullmatch(r"(\d+)(min|s|)", self.one(name))
        assert found, name
        return float(found[1]) * _UNIT[found[2]]

    @property
    def log(self) -> str:
        """The lines that it has written."""
        return (self.host.folder / f"{self.name}.log").read_text(errors="replace")

    def start(self) -> None:
        """Start it as its user, with its folders, its variables and its secrets."""
        command = self.host.user.command(
            "env",
            "-i",
            "PATH=/usr/local/bin:/usr/bin:/bin",
            *(f"{name}={value}" for name, value in self._environment().items()),
            *self._command(),
            folder=Path("/"),
            umask=int(self.one("UMask"), 8),
        )
        self._make_folders()
        self._load_credentials()
        with (self.host.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self) -> int:
        """Send its signal to its main process, and return the exit status; fail if it takes longer than it may."""
        assert self.process is not None
        self.process.send_signal(signal.Signals[self.one("KillSignal")])
        return self.process.wait(self.seconds("TimeoutStopSec"))

    def run(self) -> None:
        """Run a unit of the type `oneshot` to its end."""
        assert self.one("Type") == "oneshot"
        self.start()
        assert self.process is not None
        assert self.process.wait(self.seconds("TimeoutStartSec")) == 0, self.log

    def _command(self) -> list[str]:
        program, *arguments = shlex.split(self.one("ExecStart"))
        folder, _, name = program.rpartition("/")
        assert folder == PROGRAMS
        return [*self.host.programs[name], *arguments]

    def _environment(self) -> dict[str, str]:
        named = [part for line in self.all("Environment") for part in shlex.split(line)]
        for path in self.all("EnvironmentFile"):
            file = Path(path.removeprefix("-"))
            named += file.read_text().splitlines() if file.exists() else []
        return dict(part.split("=", 1) for part in named)

    def _make_folders(self) -> None:
        for setting, parent in (("StateDirectory", "lib"), ("RuntimeDirectory", "run")):
            for name in self.all(setting):
                folder = self.host.folder / parent / name
                folder.mkdir(parents=True, exist_ok=True)
                modes = self.all(f"{setting}Mode")
                folder.chmod(int(modes[0], 8) if modes else 0o755)
                self.host.user.own(folder)

    def _load_credentials(self) -> None:
        folder = self.host.folder / "credentials" / self.name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        for value in self.all("LoadCredential"):
            prefix, _, source = value.partition(":")
            # Of a folder each file is a credential, named by both.
            for file in Path(source).iterdir():
                credential = folder / f"{prefix}_{file.name}"
                credential.unlink(missing_ok=True)
                credential.write_text(file.read_text())
                credential.chmod(0o400)
                self.host.user.own(credential)
        folder.chmod(0o500)
        self.host.user.own(folder)
