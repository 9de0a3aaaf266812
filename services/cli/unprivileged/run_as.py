"""The account and the descriptors that a program is started with."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.cli.unprivileged.account import Account


@dataclass(frozen=True)
class RunAs:
    """An account, or this process's own where it is None, and what is inherited beside the standard streams."""

    account: Account | None = None
    inherited: tuple[int, ...] = ()

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs another one, of an absolute path, as the account."""
        return list(command) if self.account is None else self.account.command(*command)


OURSELVES = RunAs()
