"""Where files lie below the root of a disk backend."""

from pathlib import Path

from services.storage.blob_names import checked, place_of


def relative_path(name: str) -> str:
    """Return the path, below the root, of the bytes that are in place under a name.

        ROOT/
          objects/
            ab/
              cd/
                abcd….NAME         bytes of the object abcd…, verified; whole and durable where the index says so
          incoming/
            abcd….NAME             bytes on their way there
          journal/                 small objects whose files may not be durable yet (`services.storage.journal`)

    Raises ValueError for anything but a name: nothing else becomes part of a path.
    """
    first, second, name = place_of(name)
    return f"objects/{first}/{second}/{name}"


def path_of(root: Path, name: str) -> Path:
    """Return the path of the bytes that are in place under a name. Raises ValueError for anything but a name."""
    return root / relative_path(name)


def incoming_path(root: Path, name: str) -> Path:
    """Return the path of bytes on their way to a name. Raises ValueError for anything but a name."""
    return root / "incoming" / checked(name)


def objects_folder(root: Path) -> Path:
    """Return the folder that all bytes in place are below."""
    return root / "objects"
