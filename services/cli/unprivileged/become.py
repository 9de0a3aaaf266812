"""Irrevocable change to another user; run as a script, the module executes a command as that user.

    python -I -S become.py UID GID GROUP,... COMMAND...

The script replaces the arguments of `subprocess` for a user and groups: with them, `subprocess` forks, and gRPC's
threads do not survive a fork in the child.
"""

import ctypes
import os
import sys
from collections.abc import Sequence

_PR_SET_NO_NEW_PRIVS = 38


def become(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Make this process another user's, with no capability and no way to gain any. Only root can call it."""
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    # The kernel drops all capabilities once none of the three user ids is root's.
    os.setresuid(uid, uid, uid)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _main() -> None:
    uid, gid, groups, *command = sys.argv[1:]
    become(int(uid), int(gid), [int(group) for group in groups.split(",")])
    os.execv(command[0], command)  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    _main()
