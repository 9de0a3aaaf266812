"""The table of docs/settings.md has every setting, and no other."""

from pydantic_core import PydanticUndefined

from services.cache.settings import CacheSettings
from services.cli.settings import CommandSettings
from services.common.settings import Settings
from services.facade.settings import FacadeSettings
from services.locks.settings import BootstrapSettings, LocksSettings
from services.ssh.settings import SshSettings
from services.storage.settings import StorageSettings
from tests.support.sources import ROOT, text

PAGE = ROOT / "docs" / "settings.md"
BEGIN, END = "<!-- settings: begin", "<!-- settings: end -->"
# Each program and what it reads.
PROGRAMS: list[tuple[str, type[Settings]]] = [
    ("facade", FacadeSettings),
    ("locks", LocksSettings),
    ("storage", StorageSettings),
    ("ssh", SshSettings),
    ("cache", CacheSettings),
    ("`towpath`", CommandSettings),
    ("`towpath`", BootstrapSettings),
]
SERVICES = ["facade", "locks", "storage", "ssh"]
PROCESSES = [*SERVICES, "cache"]


def _default(value: object) -> str:
    if value is PydanticUndefined:
        return "(required)"
    return "" if value is None else f"`{value}`"


def _readers(programs: list[str]) -> str:
    """Return the programs; the services are `all services`, and with the cache `all`."""
    return ", ".join(programs).replace(", ".join(PROCESSES), "all").replace(", ".join(SERVICES), "all services")


def _table() -> str:
    readers: dict[str, list[str]] = {}
    cells: dict[str, str] = {}
    for program, settings in PROGRAMS:
        for name, field in settings.model_fields.items():
            assert field.description, f"{program}: {name} has no description"
            if settings is BootstrapSettings and name != "admin_token":
                continue  # `locks` has told the others
            found = readers.setdefault(name, [])
            found += [program] if program not in found else []
            cells[name] = f"{_default(field.default)} | {field.description}"
    rows = [
        f"| `TOWPATH_{name.upper()}` | {_readers(programs)} | {cells[name]} |" for name, programs in readers.items()
    ]
    return "\n".join(["| variable | read by | default | what it is |", "|---|---|---|---|", *rows])


def test_the_page_lists_every_setting() -> None:
    """The table between the marks is the one that the settings give; the message of a failure is that table."""
    _, _, rest = text(PAGE).partition(BEGIN)
    written = rest.partition("-->")[2].partition(END)[0].strip()
    assert written == _table(), _table()
