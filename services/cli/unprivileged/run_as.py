"""The account and the inherited descriptors with which a program is started."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.cli.unprivileged.account import Account


@dataclass(frozen=True)
class RunAs:
    """An account (None for this process's own), and the descriptors to inherit beside the standard streams."""

    account: Account | None = None
    inherited: tuple[int, ...] = ()

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command, given by its absolute path, as the account."""
        return list(command) if self.account is None else self.account.command(*command)


OURSELVES = RunAs()
