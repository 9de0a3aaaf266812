"""The variables of `towpath up` that a service gets: those of its settings, and those that its libraries read.

The names of the settings come from the source of their classes, because no command imports a service.
"""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[3]

# What the system and every process's libraries read, beside the names that begin with _PREFIXES.
_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        "TOWPATH_SECRETS_DIR",
    }
)
_PREFIXES = ("LC_", "LD_", "DYLD_", "MALLOC_", "GLIBC_", "PYTHON", "COVERAGE_", "OPENSSL_", "OTEL_", "GRPC_")
_OF_POSTGRES = ("PG", "KRB5")
_OF_STORES = ("AWS_", "AZURE_", "GOOGLE_", "GCE_", "IDENTITY_", "MSI_", "RUST_")
_MORE = {"storage": (*_OF_POSTGRES, *_OF_STORES), "locks": _OF_POSTGRES}


def for_service(inherited: Mapping[str, str], service: str, settings: str) -> dict[str, str]:
    """Return those of the operator's variables that a service reads which has the class `settings` of its settings."""
    names = _NAMES | {f"TOWPATH_{field.upper()}" for field in _fields(f"services.{service}.settings", settings)}
    prefixes = (*_PREFIXES, *_MORE.get(service, ()))
    # Settings are read in lower case as well, and so are the names of proxies.
    return {name: value for name, value in inherited.items() if name.upper() in names or name.startswith(prefixes)}


@cache
def _fields(module: str, name: str) -> frozenset[str]:
    """Return the fields of a class of settings, with those of its bases in `services`."""
    classes, imported = _parsed(module)
    if name in classes:
        body, bases = classes[name].body, classes[name].bases
        own = (each.target for each in body if isinstance(each, ast.AnnAssign))
        names = frozenset(target.id for target in own if isinstance(target, ast.Name))
        return names.union(*(_fields(module, ast.unparse(base)) for base in bases))
    source = imported.get(name, "")
    return _fields(source, name) if source.startswith("services.") else frozenset()


@cache
def _parsed(module: str) -> tuple[dict[str, ast.ClassDef], dict[str, str]]:
    """Return the classes of a module by name, and the modules of what it imports by name."""
    tree = ast.parse((_ROOT / module.replace(".", "/")).with_suffix(".py").read_bytes())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return classes, {alias.name: node.module or "" for node in imports for alias in node.names}
