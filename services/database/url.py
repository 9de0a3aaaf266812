"""The URL of a database, as people and clouds write it, and what the driver is given of it."""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode

from pydantic import SecretStr

from services.common.observability.logs import get_logger

_FORM = re.compile(
    r"(?P<driver>[A-Za-z0-9_+-]+)://((?P<user>[^:@/?#]*)(:(?P<password>[^@]*))?@)?(?P<hosts>[^/?#@]*)"
    r"(/(?P<database>[^?#]*))?(\?(?P<options>[^#]*))?"
)
_EXPECTED = "expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE"

# Parameters of libpq that the driver knows by the same name.
_KNOWN = {
    "host",
    "port",
    "dbname",
    "user",
    "password",
    "passfile",
    "options",
    "sslmode",
    "sslcert",
    "sslkey",
    "sslpassword",
    "sslrootcert",
    "sslcrl",
    "sslnegotiation",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "target_session_attrs",
    "krbsrvname",
    "gsslib",
}
_OTHER_NAMES = {"ssl": "sslmode"}
_OTHER_MODES = {"true": "require", "false": "disable"}
# Parameters of libpq, of pools and of other drivers, without which everything works as it should.
_LEFT_OUT = {
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "connection_limit",
    "fallback_application_name",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "load_balance_hosts",
    "pgbouncer",
    "pool_timeout",
    "sslcertmode",
    "sslcompression",
    "sslsni",
    "statement_cache_size",
    "tcp_user_timeout",
}
_FILES = ("sslcert", "sslkey", "sslrootcert", "sslcrl", "passfile")
_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_SYSTEM = "system"

_log = get_logger(__name__)


@dataclass(frozen=True)
class DatabaseUrl:
    """A URL in its parts, none of them encoded; `hosts` may be several, as `HOST:PORT,HOST:PORT`."""

    user: str
    password: str | None = field(repr=False)
    hosts: str
    database: str
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, url: SecretStr) -> Self:
        """Return the parts of a URL.

        Raises ValueError, without repeating a password, for another URL than `postgresql://` or `postgres://`, and for
        a parameter that is neither known nor harmless, or has a wrong value.
        """
        found = _FORM.fullmatch(url.get_secret_value())
        if found is None:
            raise ValueError(f"database url: {_EXPECTED}")
        if found["driver"].partition("+")[0] not in ("postgresql", "postgres"):
            raise ValueError(f"database url: expected postgresql://..., got {found['driver']}://...")
        options: dict[str, str] = {}
        for name, value in parse_qsl(found["options"] or "", keep_blank_values=True):
            # SQLAlchemy, and with it earlier versions, wrote several hosts as several parameters.
            together = name in ("host", "port") and name in options
            options[name] = f"{options[name]},{value}" if together else value
        options = _checked(options)
        user = options.pop("user", None) or unquote(found["user"] or "")
        password = options.pop("password", None) or (None if found["password"] is None else unquote(found["password"]))
        database = options.pop("dbname", None) or unquote(found["database"] or "")
        return cls(user, password, unquote(found["hosts"]), database, options)

    @property
    def place(self) -> str:
        """The hosts and the name of the database, for people to read."""
        return f"{self.hosts or self.options.get('host', '')}/{self.database}"

    def with_password(self, password: SecretStr) -> Self:
        """Return the URL with a password, if it has none."""
        return self if self.password is not None else replace(self, password=password.get_secret_value())

    def render(self) -> SecretStr:
        """Return the text of the URL."""
        password = "" if self.password is None else f":{quote(self.password, safe='')}"
        user = f"{quote(self.user, safe='')}{password}@" if self.user or password else ""
        hosts = quote(self.hosts, safe="[]:,.-_~")
        database = f"/{quote(self.database, safe='')}" if self.database else ""
        options = f"?{urlencode(self.options)}" if self.options else ""
        return SecretStr(f"postgresql://{user}{hosts}{database}{options}")

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `asyncpg.connect`."""
        if self.options.get("sslrootcert") != _SYSTEM:
            return {"dsn": self.render().get_secret_value()}
        others = {name: value for name, value in self.options.items() if name not in ("sslrootcert", "sslmode")}
        return {"dsn": replace(self, options=others).render().get_secret_value(), "ssl": _trusting_the_system()}


def _checked(options: Mapping[str, str]) -> dict[str, str]:
    named = {_OTHER_NAMES.get(name, name): value for name, value in options.items()}
    if unknown := sorted(named.keys() - _KNOWN - _LEFT_OUT):
        raise ValueError(f"database url: {unknown[0]}: this parameter is not supported")
    if left_out := sorted(named.keys() & _LEFT_OUT):
        _warn(tuple(left_out))
    kept = {name: value for name, value in named.items() if name in _KNOWN}
    mode = kept.get("sslmode", "")
    if mode:
        mode = kept["sslmode"] = _OTHER_MODES.get(mode, mode)
        if mode not in _MODES:
            raise ValueError(f"database url: sslmode: expected one of {', '.join(_MODES)}")
    if kept.get("sslrootcert") == _SYSTEM and mode != "verify-full":
        raise ValueError("database url: sslmode: expected verify-full with sslrootcert=system")
    for name in _FILES:
        if kept.get(name, _SYSTEM) != _SYSTEM:
            _check_file(name, Path(kept[name]))
    return kept


def _check_file(name: str, path: Path) -> None:
    # The driver would raise OSError, as it does where Postgres is away, which is waited for.
    try:
        content = path.read_text(errors="replace")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"database url: {name}: expected a file that can be read: {path}: {reason}") from None
    if name != "passfile" and "-----BEGIN" not in content:
        raise ValueError(f"database url: {name}: expected a file in PEM: {path}")


@cache
def _warn(names: tuple[str, ...]) -> None:
    """Tell once which parameters are left out."""
    _log.warning("parameters of the database url are left out", parameters=", ".join(names))


@cache
def _trusting_the_system() -> ssl.SSLContext:
    return ssl.create_default_context()
