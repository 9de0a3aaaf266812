"""The versions of a service's tables, read from the names of its migrations and without the migration libraries.

The file of a migration is named after the version that it leads to, such as `0003_stores.py` after 0003.
"""

from pathlib import Path


def known_versions(versions: Path) -> frozenset[str]:
    """Return the versions that the migrations in a folder lead to."""
    return frozenset(file.name.partition("_")[0] for file in versions.glob("[0-9]*_*.py"))


def newest_version(versions: Path) -> str:
    """Return the version that the newest migration in a folder leads to. Raises ValueError if it has none."""
    return max(known_versions(versions))
