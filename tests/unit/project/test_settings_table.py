"""The README's configuration table tells every setting, and only those that there are."""

from pathlib import Path

from pydantic_core import PydanticUndefined

from services.common.settings import ServiceSettings
from services.facade.settings import FacadeSettings
from services.locks.settings import LocksSettings
from services.storage.settings import StorageSettings

README = Path(__file__).parents[3] / "README.md"
BEGIN, END = "<!-- settings: begin", "<!-- settings: end -->"
SERVICES: dict[str, type[ServiceSettings]] = {
    "facade": FacadeSettings,
    "locks": LocksSettings,
    "storage": StorageSettings,
}


def _default(value: object) -> str:
    if value is PydanticUndefined:
        return "(required)"
    return "" if value is None else f"`{value}`"


def _table() -> str:
    readers: dict[str, list[str]] = {}
    cells: dict[str, str] = {}
    for service, settings in SERVICES.items():
        for name, field in settings.model_fields.items():
            assert field.description, f"{service}: {name} has no description"
            readers.setdefault(name, []).append(service)
            cells[name] = f"{_default(field.default)} | {field.description}"
    names = {len(SERVICES): "all"}
    rows = [
        f"| `TOWPATH_{name.upper()}` | {names.get(len(services), ', '.join(services))} | {cells[name]} |"
        for name, services in readers.items()
    ]
    return "\n".join(["| variable | read by | default | what it is |", "|---|---|---|---|", *rows])


def test_the_readme_lists_every_setting() -> None:
    """The table between the marks is the one that the settings give; the message of a failure is that table."""
    _, _, rest = README.read_text().partition(BEGIN)
    written = rest.partition("-->")[2].partition(END)[0].strip()
    assert written == _table(), _table()
