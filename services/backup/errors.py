"""The error of a backup, a restore or a check."""

from collections.abc import Sequence

_TOLD = 20


class BackupError(Exception):
    """The command cannot be done; the message says why, with a further line for each of the first 20 `problems`."""

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        shown = [*problems[:_TOLD], *([f"and {len(problems) - _TOLD} more"] if len(problems) > _TOLD else [])]
        super().__init__("\n  ".join([message, *shown]))
