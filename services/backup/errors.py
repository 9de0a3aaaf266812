"""How a backup, a restore or a check fails."""

from collections.abc import Sequence

_TOLD = 20


class BackupError(Exception):
    """It cannot be done; the message says why, in one line or, where `problems` are given, in several."""

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        told = [*problems[:_TOLD], *([f"and {len(problems) - _TOLD} more"] if len(problems) > _TOLD else [])]
        super().__init__("\n  ".join([message, *told]))
