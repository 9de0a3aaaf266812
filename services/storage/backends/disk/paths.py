"""Paths of files below the root of a disk backend."""

from pathlib import Path

from services.storage.blob_names import checked, place_of


def relative_path(name: str) -> str:
    """Return the path, below the root, of the blob that is in place under a name.

        ROOT/
          objects/
            ab/
              cd/
                abcd….NAME         a blob of the object abcd…; verified, whole and durable if the index has its name
          incoming/
            abcd….NAME             a blob that is being uploaded
          journal/                 small objects whose files may not be durable yet (`services.storage.journal`)

    Raises ValueError for anything but a blob name, so that nothing else becomes part of a path.
    """
    first, second, name = place_of(name)
    return f"objects/{first}/{second}/{name}"


def path_of(root: Path, name: str) -> Path:
    """Return the path of the blob that is in place under a name. Raises ValueError for anything but a blob name."""
    return root / relative_path(name)


def incoming_path(root: Path, name: str) -> Path:
    """Return the path of a blob that is being uploaded. Raises ValueError for anything but a blob name."""
    return root / "incoming" / checked(name)


def objects_folder(root: Path) -> Path:
    """Return the folder that contains all blobs in place."""
    return root / "objects"
