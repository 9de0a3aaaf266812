"""Folders as the source and the target of objects."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from pathlib import Path

import pytest

from services.cli.errors import CommandError
from services.cli.pointers.named import SIZE_BYTES, Pointer
from services.cli.pointers.oid_spool import OidSpool
from services.transfer.errors import Kind, ObjectProblem
from services.transfer.folder import FolderSink, FolderSource
from services.transfer.moving import Mover, pointers_of
from services.transfer.places import Sink, Source, checked
from services.transfer.rate import Rate
from tests.support.http import content, oid_of

DATAS = [content(f"object {number}", 1000 * number) for number in range(20)] + [content("large", 3_000_000)]

LAYOUTS = {
    "git-lfs": ("objects/{0}/{1}/{oid}", "objects"),
    "a working tree": (".git/lfs/objects/{0}/{1}/{oid}", "."),
    "a bare repository": ("lfs/objects/{0}/{1}/{oid}", "."),
    "lfs-test-server": ("content/{0}/{1}/{rest}", "content"),
    "GitLab": ("shared/lfs-objects/{0}/{1}/{rest}", "shared"),
    "Gitea and Forgejo": ("data/lfs/{0}/{1}/{rest}", "data/lfs"),
    "one folder": ("{oid}", "."),
    "one level": ("{0}/{oid}", "."),
    "another split": ("a/b/{oid[0]}/{oid[1]}/{oid[2]}/{tail}", "."),
}


def lay_out(folder: Path, layout: str, datas: Iterable[bytes]) -> Path:
    """Write objects in a layout, and return the folder to name."""
    template, root = LAYOUTS[layout]
    for data in datas:
        oid = oid_of(data)
        path = folder / template.format(oid[:2], oid[2:4], oid=oid, rest=oid[4:], tail=oid[3:])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / root


async def read(source: Source, pointer: Pointer) -> bytes:
    """Read an object."""
    async with aclosing(source.read(pointer)) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def listed(source: Source) -> list[Pointer]:
    """List a source."""
    with OidSpool(SIZE_BYTES) as spool:
        await source.add_all(spool)
        return list(pointers_of(spool))


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_every_layout(tmp_path: Path, layout: str) -> None:
    """Listed, and read by the same names; also where git tells what there is."""
    root = lay_out(tmp_path, layout, DATAS)
    (root / "README").write_text("no object")
    expected = {oid_of(data): data for data in DATAS}
    source = FolderSource.open(root)
    pointers = await listed(source)
    assert pointers == sorted(Pointer(oid, len(data)) for oid, data in expected.items())
    assert [await read(source, pointer) for pointer in pointers] == [expected[pointer.oid] for pointer in pointers]
    unlisted = FolderSource.open(root)
    await unlisted.announce(pointers[:1])
    assert await read(unlisted, pointers[0]) == expected[pointers[0].oid]


async def test_what_a_git_repository_has_besides(tmp_path: Path) -> None:
    """Objects of git with SHA-256 look alike, and are no large files."""
    root = lay_out(tmp_path, "a working tree", DATAS[:2])
    git = tmp_path / ".git/objects/ab" / ("c" * 62)
    git.parent.mkdir(parents=True)
    git.write_bytes(b"an object of git")
    assert len(await listed(FolderSource.open(root))) == 2


async def test_links_and_other_things_are_left_out(tmp_path: Path) -> None:
    """A link could lead anywhere, and a FIFO has no end."""
    root = lay_out(tmp_path, "git-lfs", DATAS[:1])
    (root / ("a" * 64)).symlink_to("/etc/passwd")
    (root / "loop").symlink_to(root)
    os.mkfifo(root / ("b" * 64))
    assert [pointer.oid for pointer in await listed(FolderSource.open(root))] == [oid_of(DATAS[0])]


async def test_problems_of_a_source(tmp_path: Path) -> None:
    """Each says what is wrong with the object."""
    root = lay_out(tmp_path, "git-lfs", DATAS)
    source = FolderSource.open(root)
    pointers = await listed(source)

    async def problem(pointer: Pointer) -> tuple[Kind, str]:
        with pytest.raises(ObjectProblem) as caught:
            await read(source, pointer)
        return caught.value.kind, caught.value.message

    assert await problem(Pointer("0" * 64, 1)) == (Kind.MISSING, "the folder does not have it")
    shorter = pointers[0]._replace(size=pointers[0].size + 1)
    assert await problem(shorter) == (Kind.WRONG, f"there are {shorter.size - 1} bytes instead of {shorter.size}")
    last = max(pointers, key=lambda pointer: pointer.size)
    longer = last._replace(size=last.size - 1)
    assert await problem(longer) == (Kind.WRONG, f"there are more than {longer.size} bytes")
    with pytest.raises(CommandError, match="expected a folder that exists, or a URL"):
        FolderSource.open(root / "none")


async def move(source: Source, sink: Sink) -> Mover:
    """Move what the sink lacks."""
    mover = Mover(source, sink, concurrency=4, rate=Rate(0), advance=lambda _: None)
    with OidSpool(SIZE_BYTES) as spool:
        await source.add_all(spool)
        await mover.run(spool)
    return mover


async def test_a_folder_to_a_folder(tmp_path: Path) -> None:
    """Whole files under their names alone; a second run copies nothing, and what was cut off is repeated."""
    source = FolderSource.open(lay_out(tmp_path / "from", "GitLab", DATAS))
    sink = FolderSink.open(tmp_path / "to")
    try:
        first = await move(source, sink)
        assert (first.moved.copied_count, first.moved.held_count) == (len(DATAS), 0)
        found = {path.name: path.read_bytes() for path in _files(tmp_path / "to")}
        assert found == {oid_of(data): data for data in DATAS}
        again = await move(source, sink)
        assert (again.moved.copied_count, again.moved.held_count) == (0, len(DATAS))
        oid = oid_of(DATAS[-1])
        path = tmp_path / "to" / oid[:2] / oid[2:4] / oid
        path.with_name(f".{oid}.part").write_bytes(b"of a run that was killed")
        path.write_bytes(DATAS[-1][:-1])
        third = await move(source, sink)
        assert third.moved.copied_count == 1
        assert path.read_bytes() == DATAS[-1]
        assert len(_files(tmp_path / "to")) == len(DATAS)
    finally:
        sink.close()


async def test_a_wrong_object_gets_no_name(tmp_path: Path) -> None:
    """It is told, and the others are copied."""
    root = lay_out(tmp_path / "from", "git-lfs", DATAS)
    wrong = next(path for path in _files(root) if path.name == oid_of(DATAS[-1]))
    wrong.write_bytes(DATAS[-1][:-1] + b"x")
    sink = FolderSink.open(tmp_path / "to")
    try:
        mover = await move(FolderSource.open(root), sink)
    finally:
        sink.close()
    [problem] = mover.moved.problems
    assert (problem["oid"], problem["kind"]) == (oid_of(DATAS[-1]), "wrong")
    assert "the bytes have the hash" in problem["problem"]
    assert mover.moved.copied_count == len(DATAS) - 1
    assert {path.name for path in _files(tmp_path / "to")} == {oid_of(data) for data in DATAS[:-1]}


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_one_export_at_a_time(tmp_path: Path) -> None:
    """Two would write the same unfinished files."""
    sink = FolderSink.open(tmp_path / "to")
    with pytest.raises(CommandError, match="another export works on it"):
        FolderSink.open(tmp_path / "to")
    sink.close()
    FolderSink.open(tmp_path / "to").close()


async def test_a_hash_is_known_before_the_last_bytes() -> None:
    """A place that takes no wrong object must not get all bytes of one."""

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield b"first"
        yield b"last"

    found = checked(Pointer("0" * 64, 9), chunks())
    assert await anext(found) == b"first"
    with pytest.raises(ObjectProblem):
        await anext(found)


async def test_a_rate_is_kept() -> None:
    """By all streams together."""
    rate = Rate(1_000_000)

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield b"x" * 200_000

    async def drain() -> int:
        return sum([len(chunk) async for chunk in rate.limited(chunks())])

    loop = asyncio.get_running_loop()
    began = loop.time()
    assert list(await asyncio.gather(drain(), drain())) == [200_000, 200_000]
    assert loop.time() - began >= 0.39
