"""The account and the descriptors that a program is started with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from services.cli.unprivileged.account import Account


class Options(TypedDict, total=False):
    """Arguments of `subprocess.Popen` and of asyncio's counterpart."""

    pass_fds: Sequence[int]
    user: int
    group: int
    extra_groups: Sequence[int]


@dataclass(frozen=True)
class RunAs:
    """An account, or this process's own where it is None, and what is inherited beside the standard streams."""

    account: Account | None = None
    inherited: tuple[int, ...] = ()

    def options(self, *inherited: int) -> Options:
        """Return what starts a program so, with more descriptors to inherit; no capability is left with an account."""
        options: Options = {"pass_fds": (*self.inherited, *inherited)}
        if self.account is not None:
            options["user"] = self.account.uid
            options["group"] = self.account.gid
            options["extra_groups"] = self.account.groups
        return options


OURSELVES = RunAs()
