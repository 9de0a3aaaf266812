"""The settings of the lock service."""

import pytest
from pydantic import SecretStr, ValidationError

from services.locks.settings import LocksSettings

_URL = SecretStr("postgresql://towpath:hush@db/towpath")


def _settings(**values: object) -> LocksSettings:
    # mypy knows the fields one by one, not a dict of them.
    return LocksSettings(
        locks_listen="unix:/run/l.sock",
        storage_address="unix:/run/s.sock",
        locks_database_url=_URL,
        **values,  # type: ignore[arg-type] # each is of its own type
    )


@pytest.mark.parametrize(
    ("limit", "size"), [(0, 100), (-1, 100), (-(2**31), 100), (1, 1), (1000, 1000), (1001, 1000), (2**31 - 1, 1000)]
)
def test_page_sizes_are_coerced(limit: int, size: int) -> None:
    """Protocol "List locks": the server has its own upper and lower bounds."""
    assert _settings().page_size(limit) == size


@pytest.mark.parametrize(
    "values",
    [
        {"lock_page_default": 11, "lock_page_max": 10},
        {"lock_page_max": 3001},
        {"lock_path_bytes": 4097},
        {"lock_page_default": 0},
        {"lock_page_bytes": 4095},
        {"locks_per_user": 0},
    ],
)
def test_bounds(values: dict[str, int]) -> None:
    """A setting that would not fit a message, or makes no sense, must be refused at the start."""
    with pytest.raises(ValidationError):
        _settings(**values)


def test_a_default_that_is_no_rate_is_refused() -> None:
    """The service does not start with it."""
    with pytest.raises(ValidationError, match="expected such as 10/s, 600/min"):
        _settings(request_rate="600")


def test_every_setting_is_described() -> None:
    """The table in the documentation is made of the descriptions."""
    assert all(field.description for field in LocksSettings.model_fields.values())


def test_the_password_of_the_database_is_not_shown() -> None:
    """Settings end up in log lines and tracebacks."""
    assert "hush" not in repr(_settings())
