"""Where files lie below the root of a disk backend."""

from pathlib import Path

from services.common.oid import is_oid


def path_of(root: Path, oid: str, *, incoming: str = "") -> Path:
    """Return the path of an object's bytes, or, with `incoming`, of bytes on their way to it.

        ROOT/
          objects/
            ab/
              cd/
                abcd…              the bytes of the object abcd…, whole and verified; never changed, only replaced
          incoming/
            abcd….INCOMING         bytes on their way; under flock as long as their writer lives

    Raises ValueError unless `oid` is one: nothing else becomes part of a path.
    """
    if not is_oid(oid):
        raise ValueError(f"oid: expected 64 lower-case hexadecimal digits, got {oid!r}")
    if incoming:
        return incoming_folder(root) / f"{oid}.{incoming}"
    return root / "objects" / oid[:2] / oid[2:4] / oid


def incoming_folder(root: Path) -> Path:
    """Return the folder of bytes on their way."""
    return root / "incoming"


def oid_of(incoming: Path) -> str | None:
    """Return the oid in the name of a file of the folder `incoming`, or None for a name that is none of ours."""
    oid, _, _ = incoming.name.partition(".")
    return oid if is_oid(oid) else None
