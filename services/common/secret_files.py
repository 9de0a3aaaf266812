"""The secrets folder: files that contain the values of settings."""

import os
from pathlib import Path

_DEFAULT = "/run/secrets"


def secrets_folder() -> Path:
    """Return the path of the secrets folder; the folder need not exist."""
    return Path(os.environ.get("TOWPATH_SECRETS_DIR") or _DEFAULT)


def value_of(file: Path, text: str) -> str:
    """Return the value of the setting in a secret file with this text: the text, or the file's path if it is PEM.

    The path, because the settings of certificates and keys are paths.
    """
    return str(file) if "-----BEGIN " in text else text.strip()
