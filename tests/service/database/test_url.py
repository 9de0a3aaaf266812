"""URLs of databases as clouds hand them out: what is meant is done, what is harmless is left out, the rest is named."""

from pathlib import Path

import pytest
import trustme
from pydantic import SecretStr
from sqlalchemy import text

from services.database.migrations import create_operator_engine
from services.database.url import DatabaseUrl
from tests.service.database.test_pgbouncer import pooled
from tests.support.certificates import write_certificate
from tests.support.folders import temporary_folder
from tests.support.postgres import TestPostgres

SYSTEM = "sslmode=verify-full&sslrootcert=system"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("postgres://u:p%40s@h:1/d?sslmode=require&channel_binding=require", "u:p%40s@h:1/d?sslmode=require"),
        ("postgresql+asyncpg://u@h/d?connect_timeout=10&application_name=x&keepalives=1", "u@h/d"),
        ("postgresql://u:a/b:c?d#e@h/d?pgbouncer=true&connection_limit=1", "u:a%2Fb%3Ac%3Fd%23e@h/d"),
        (
            "postgresql://u@a:1,b:2,[::1]:3/d?target_session_attrs=read-write",
            "u@a:1,b:2,[::1]:3/d?target_session_attrs=read-write",
        ),
        ("postgresql://u@/d?host=a:1&host=b:2", "u@/d?host=a%3A1%2Cb%3A2"),
        ("postgresql://u@h/d?ssl=verify-full", "u@h/d?sslmode=verify-full"),
        ("postgresql://h/?user=u&password=p%20q&dbname=d&ssl=true", "u:p%20q@h/d?sslmode=require"),
        ("postgresql://u@/d?host=/run/postgresql&port=5433", "u@/d?host=%2Frun%2Fpostgresql&port=5433"),
        (
            "postgresql://u@%2Frun%2Fpostgresql/d?options=-c%20work_mem%3D1MB",
            "u@%2Frun%2Fpostgresql/d?options=-c+work_mem%3D1MB",
        ),
        (f"postgresql://u@h/d?{SYSTEM}", "u@h/d"),
    ],
)
def test_what_the_driver_gets(given: str, meant: str) -> None:
    """It knows most parameters of libpq, and takes all others for settings of the server."""
    arguments = DatabaseUrl.parse(SecretStr(given)).arguments()
    assert arguments["dsn"] == f"postgresql://{meant}"
    assert ("ssl" in arguments) == (SYSTEM in given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("require_auth=scram-sha-256", "require_auth: this parameter is not supported"),
        ("sslmode=on", "sslmode: expected one of disable, "),
        ("sslmode=require&sslrootcert=system", "sslmode: expected verify-full"),
        (
            "sslrootcert=/nonexistent/ca.pem",
            "sslrootcert: expected a file that can be read: /nonexistent/ca.pem: no such",
        ),
        (f"sslrootcert={__file__}", "sslrootcert: expected a file in PEM"),
    ],
)
def test_what_is_refused(options: str, message: str) -> None:
    """Without the password."""
    with pytest.raises(ValueError, match=f"^database url: {message}") as caught:
        DatabaseUrl.parse(SecretStr(f"postgresql://u:hidden@h/d?{options}"))
    assert "hidden" not in str(caught.value)


async def test_hosts_and_options_reach_postgres(postgres: TestPostgres) -> None:
    """The host that answers is found among several, and the server has the options."""
    name = DatabaseUrl.parse(await postgres.create_database(empty=True)).database
    hosts = f"host=/nonexistent,{postgres.postgres.sockets}&port=5432,5432"
    url = f"postgresql://towpath@/{name}?{hosts}&options=-c%20work_mem%3D1234kB&sslmode=prefer&connect_timeout=3"
    engine = create_operator_engine(SecretStr(url), "test")
    async with engine.connect() as connection:
        assert await connection.scalar(text("SHOW work_mem")) == "1234kB"
    await engine.dispose()


async def test_certificates(postgres: TestPostgres, database_url: SecretStr, tmp_path: Path) -> None:
    """A server is believed by the authority that the URL names, and by no other."""
    with temporary_folder() as folder:
        folder.chmod(0o755)
        files = write_certificate(folder)
        files.key.chmod(0o644)
        lines = (
            "client_tls_sslmode = require",
            f"client_tls_key_file = {files.key}",
            f"client_tls_cert_file = {files.chain}",
        )
        async with pooled(postgres, database_url, *lines, mode="session") as url:
            for authority, is_good in ((files.authority, True), (_other_authority(tmp_path), False)):
                named = SecretStr(f"{url.get_secret_value()}?sslmode=verify-full&sslrootcert={authority}")
                engine = create_operator_engine(named, "test")
                if is_good:
                    async with engine.connect() as connection:
                        assert await connection.scalar(text("SELECT 1")) == 1
                else:
                    with pytest.raises(OSError, match="certificate verify failed"):
                        await engine.connect()
                await engine.dispose()


def _other_authority(folder: Path) -> Path:
    path = folder / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return path
