"""The secrets folder: files that hold the values of settings."""

import os
from pathlib import Path

_DEFAULT = "/run/secrets"


def secrets_folder() -> Path:
    """Return the folder, which need not be there."""
    return Path(os.environ.get("TOWPATH_SECRETS_DIR") or _DEFAULT)


def value_of(file: Path, text: str) -> str:
    """Return what a secret file with this text says: the text, or where that is PEM, the path of the file.

    The settings of certificates and keys are paths.
    """
    return str(file) if "-----BEGIN " in text else text.strip()
