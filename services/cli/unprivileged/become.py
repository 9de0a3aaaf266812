"""The change to another user, for good; as a script it runs a command as that user.

    python -I -S become.py UID GID GROUP,... COMMAND...

A script, and not the arguments of `subprocess` that do the same: with those it forks, and gRPC's threads do not survive
that in the child.
"""

import ctypes
import os
import sys
from collections.abc import Sequence

_PR_SET_NO_NEW_PRIVS = 38


def become(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Make this process another user's, with no capability and no way to get one. Only root can."""
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    # With the last of the three user ids that are root's, all capabilities go.
    os.setresuid(uid, uid, uid)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _main() -> None:
    uid, gid, groups, *command = sys.argv[1:]
    become(int(uid), int(gid), [int(group) for group in groups.split(",")])
    os.execv(command[0], command)  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    _main()
