"""Files that map the names of users at another server to those here."""

from pathlib import Path

from services.cli.errors import CommandError

_MAX_BYTES = 4 * 1024**2


def read_user_map(path: Path) -> dict[str, str]:
    """Return the names of users by the names that the other server has for them, from lines `theirs = ours`.

    Lines that are empty or begin with "#" are comments. Raises `CommandError` for other lines, and for a file that
    cannot be read.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1).decode()
    except OSError as error:
        raise CommandError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: expected UTF-8") from error
    if len(text) > _MAX_BYTES:
        raise CommandError(f"{path}: expected at most {_MAX_BYTES} bytes")
    names = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        theirs, _, ours = map(str.strip, line.partition("="))
        if not (theirs and ours):
            raise CommandError(f"{path}: line {number}: expected such as `Alice.Example = alice`")
        names[theirs] = ours
    return names
