"""Backup, wipe, restore: everything is back; this comes last, as it takes the stack down."""

import os
from pathlib import Path

import pytest

from tests.stack.compose import ComposeStack
from tests.stack.work import CREW, REPOSITORY
from tests.support.http import Client, content, oid_of


@pytest.mark.timeout(600)
async def test_backup_wipe_restore(single: ComposeStack, tokens: dict[str, str], tmp_path: Path) -> None:
    """Objects, locks and tokens outlive the loss of all volumes; a damaged backup is refused."""
    name = CREW[0]
    base = f"http://{single.address('facade', 8080)}/{REPOSITORY}"
    objects = [content(f"kept {number}", 500_000) for number in range(5)]
    async with Client(base, name, tokens[name]) as client:
        for data in objects:
            assert (await client.upload(data)).status_code == 200
        assert (await client.lock("kept.dat")).status_code == 201
        locks = await client.all_locks()
    backup = tmp_path / "backup"
    backup.mkdir()
    os.chmod(backup, 0o777)  # noqa: PTH101, S103 - the container's user, whom this host does not know, writes there
    _one_off(single, backup, "backup")
    single.compose("down", "--volumes", "--timeout=10")
    single.compose("up", "--detach", "--wait", "postgres")

    victim = next(path for path in (backup / "objects").rglob("*") if path.is_file())
    sound = victim.read_bytes()
    victim.chmod(0o666)
    victim.write_bytes(b"x" + sound[1:])
    refused = _one_off(single, backup, "restore", check=False)
    assert victim.name[:64] in refused
    victim.write_bytes(sound)

    _one_off(single, backup, "restore")
    single.up()
    base = f"http://{single.address('facade', 8080)}/{REPOSITORY}"
    async with Client(base, name, tokens[name]) as client:
        assert await client.all_locks() == locks
        for data in objects:
            assert (await client.download(oid_of(data), len(data))).content == data


def _one_off(stack: ComposeStack, folder: Path, command: str, *, check: bool = True) -> str:
    return stack.compose(
        "run",
        "--rm",
        "--no-deps",
        "--no-TTY",
        f"--volume={folder}:/backup",
        "storage",
        "sh",
        "-c",
        f"towpath {command} /backup 2>&1",
        check=check,
        seconds=300,
    )
