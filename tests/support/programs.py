"""The programs that the tests run and pip does not bring: where they are, and what is skipped without them.

`python -m tests.support.programs` lists those that `make test` could not bring, with what is skipped without them, and
says where the disk has too little room for all tests; with `drills`, those of `make drill` too.
It fails where the real client is missing and must not be: for root, who can install it, and in continuous integration.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

_BESIDE = (f"{sys.prefix}/bin", "/usr/sbin", "/usr/local/sbin")
PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), *_BESIDE))
"""The path on which programs are found; `tests/support/install.sh` puts some beside Python."""

AZURITE = Path(sys.prefix) / "azurite/node_modules/azurite/dist/src/blob/main.js"

OIDC_PROVIDER = Path(sys.prefix) / "oidc-provider"
KEYCLOAK = Path(sys.prefix) / "keycloak/bin/kc.sh"

TESTS = {
    "git": "all with git-lfs",
    "git-lfs": "the tests with the real client: tests/e2e/test_real_client*.py, and parts of tests/e2e/test_direct.py, "
    "test_https.py, test_proxies.py and test_up.py",
    "gcc": "tests/service/storage/test_failing_disk.py",
    "openssl": "one test of tests/service/facade/test_certificate.py",
    "nginx": "tests/e2e/test_proxies.py and test_partition.py",
    "pgbouncer": "tests/service/database/test_pgbouncer.py and tests/e2e/test_pgbouncer.py",
    "hg": "tests/e2e/test_mercurial.py",
    "prometheus": "parts of tests/service/monitoring",
    "promtool": "parts of tests/service/monitoring/test_alerts.py",
    "sshd": "tests/e2e/test_ssh.py, and the pushes over ssh of tests/e2e/test_push_hooks.py",
    "chromium": "tests/service/facade/test_sign_in.py, tests/e2e/test_credential_helper.py and test_pages.py",
    "chromedriver": "tests/service/facade/test_sign_in.py and tests/e2e/test_credential_helper.py",
    "oidc-provider": "tests/service/facade/test_sign_in.py and tests/e2e/test_credential_helper.py",
    "helm": "tests/unit/deploy/test_chart.py; `make lint` brings it",
}
"""Each program of `make test`, and what is skipped without it."""

DRILLS = {
    "caddy": "the drills with Caddy: parts of tests/e2e/test_proxies.py and test_extra_header.py",
    "haproxy": "the drills with HAProxy: parts of tests/e2e/test_extra_header.py",
    "apache2": "the drills with Apache: parts of tests/e2e/test_extra_header.py",
    "wrk": "tests/unit/benchmarks/test_wrk.py",
    "npm": "the Node.js part of tests/e2e/test_examples.py",
    "keycloak": "tests/service/facade/test_keycloak.py",
    "lfs-test-server": "tests/e2e/test_import.py, and parts of test_conformance.py and test_second_office.py",
    "gitea": "tests/e2e/test_import_gitea.py; `make drill` does not bring it",
    "azurite": "the drills with Azure's blobs: parts of tests/service/storage",
}
"""Each program that `make drill` needs besides, and what is skipped without it."""

_CLIENT = ("git", "git-lfs")
_GIB = 2**30
_NEEDED_BYTES = 12 * _GIB


def find(name: str) -> str | None:
    """Return where a program is, if it is here."""
    if name == "azurite":
        return str(AZURITE) if AZURITE.exists() and shutil.which("node", path=PATH) else None
    if name == "oidc-provider":
        is_here = (OIDC_PROVIDER / "node_modules/oidc-provider").exists()
        return str(OIDC_PROVIDER) if is_here and shutil.which("node", path=PATH) else None
    if name == "keycloak":
        return str(KEYCLOAK) if KEYCLOAK.exists() and shutil.which("java", path=PATH) else None
    return shutil.which(name, path=PATH)


def needed(name: str) -> str:
    """Return where a program is; skip the test or the module where it is not here, or fail where it has to be."""
    found = find(name)
    if found is not None:
        return found
    if must_be_here(name):
        pytest.fail(f"{name} is not here; `make programs` installs it", pytrace=False)
    pytest.skip(f"{name} is not here, and `make programs` could not bring it", allow_module_level=True)


def must_be_here(name: str) -> bool:
    """Tell whether a program is one that the tests cannot do without on this computer."""
    return name in _CLIENT and (os.geteuid() == 0 or os.environ.get("CI") == "true")


def main() -> int:
    """List what is missing; return the exit status."""
    skipped = TESTS | DRILLS if sys.argv[1:] == ["drills"] else TESTS
    missing = [name for name in skipped if find(name) is None]
    needless = [name for name in missing if not must_be_here(name)]
    if needless:
        sys.stderr.write("\nNot here, and skipped therefore:\n")
        sys.stderr.writelines(f"  {name:<15} {skipped[name]}\n" for name in needless)
        sys.stderr.write("\n")
    if (free := shutil.disk_usage(tempfile.gettempdir()).free) < _NEEDED_BYTES:
        sys.stderr.write(
            f"\n{tempfile.gettempdir()}: {free / _GIB:.1f} GiB are free, and all tests together need"
            f" {_NEEDED_BYTES // _GIB} GiB; TMPDIR=FOLDER names another folder\n\n"
        )
    for name in missing:
        if must_be_here(name):
            sys.stderr.write(f"{name} is not here, and root and continuous integration do not go without: see above\n")
    return int(missing != needless)


if __name__ == "__main__":
    sys.exit(main())
