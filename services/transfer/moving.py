"""The movement of objects: what is lacking is read at one place and written at another, several at a time."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from services.cli.errors import CommandError
from services.cli.pointers.named import Pointer
from services.cli.pointers.oid_spool import OidSpool
from services.transfer.errors import Interrupted, Kind, ObjectProblem
from services.transfer.places import Sink, Source, checked
from services.transfer.rate import Rate
from services.transfer.retries import MAX_TRIES, repeated

BATCH = 100
"""The number of objects that are asked about at a time."""

_SMALL_BYTES = 256 * 1024
_GROUP_BYTES = 1024**2
# Several groups of one batch are on their way at once.
_GROUP_OBJECTS = 16
_MAX_LISTED = 1_000
# A wrong object may have been damaged on its way.
_MAX_WRONG = 2

Result = TypeVar("Result")


@dataclass
class Moved:
    """The outcome: how many objects there are, were there already and were moved, and the problems of others."""

    object_count: int = 0
    object_bytes: int = 0
    held_count: int = 0
    copied_count: int = 0
    copied_bytes: int = 0
    problem_counts: Counter[str] = field(default_factory=Counter)
    problems: list[dict[str, str]] = field(default_factory=list)

    def add_problem(self, pointer: Pointer, problem: ObjectProblem) -> None:
        """Count the problem of an object; the first 1,000 are listed."""
        self.problem_counts[problem.kind] += 1
        if len(self.problems) < _MAX_LISTED:
            self.problems.append({"oid": pointer.oid, "kind": problem.kind.value, "problem": problem.message})

    def record(self) -> dict[str, Any]:
        """Return the printed fields; sizes are in bytes."""
        return {
            "object_count": self.object_count,
            "object_bytes": self.object_bytes,
            "held_count": self.held_count,
            "copied_count": self.copied_count,
            "copied_bytes": self.copied_bytes,
            **{f"{kind}_count": self.problem_counts[kind] for kind in Kind},
            "problems": self.problems,
        }


class Mover:
    """One movement of all objects of a spool from a source to a sink."""

    def __init__(
        self, source: Source, sink: Sink, *, concurrency: int, rate: Rate, advance: Callable[[int], None]
    ) -> None:
        self._source = source
        self._sink = sink
        self._concurrency = concurrency
        self._rate = rate
        self._advance = advance
        self.moved = Moved()

    async def run(self, spool: OidSpool) -> None:
        """Move what the sink lacks. Raises `CommandError` and `ServiceError` where nothing more can be moved."""
        groups: asyncio.Queue[Sequence[Pointer] | None] = asyncio.Queue(maxsize=self._concurrency)

        async def work() -> None:
            while (group := await groups.get()) is not None:
                await self._move(group)

        async def feed() -> None:
            await self._feed(pointers_of(spool), groups)
            for _ in range(self._concurrency):
                await groups.put(None)

        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(feed())
                for _ in range(self._concurrency):
                    tasks.create_task(work())
        except ExceptionGroup as failures:
            # One failure is enough: the task group has cancelled the others because of it.
            raise failures.exceptions[0] from failures

    async def _feed(self, pointers: Iterator[Pointer], groups: asyncio.Queue[Sequence[Pointer] | None]) -> None:
        while batch := list(islice(pointers, BATCH)):
            self.moved.object_count += len(batch)
            self.moved.object_bytes += sum(pointer.size for pointer in batch)
            lacking, problems = await self._sink.lacking(batch)
            wanted = {pointer.oid for pointer in lacking}
            for pointer in batch:
                if (problem := problems.get(pointer.oid)) is not None:
                    self._fail(pointer, problem)
                elif pointer.oid not in wanted:
                    self.moved.held_count += 1
                    self._advance(pointer.size)
            await self._source.announce(lacking)
            for group in _groups(lacking, self._sink.max_group):
                await groups.put(group)

    async def _move(self, group: Sequence[Pointer]) -> None:
        if len(group) == 1 and (self._sink.max_group == 1 or group[0].size > _SMALL_BYTES):
            await self._one(group[0], lambda: self._sink.write(group[0], self._chunks(group[0])))
            return
        read: list[tuple[Pointer, bytes]] = []
        for pointer in group:
            data = await self._tried(pointer, lambda: _whole(self._chunks(pointer)))  # noqa: B023 - awaited here
            if data is not None:
                read.append((pointer, data))
        if not read:
            return
        try:
            outcomes = await repeated(lambda: self._sink.write_small(read))
        except Interrupted as error:
            raise CommandError(error.message) from error
        for (pointer, _), problem in zip(read, outcomes, strict=True):
            if problem is None:
                self._count(pointer)
            elif problem.kind is Kind.WRONG:
                # Once more, by itself.
                await self._one(pointer, lambda: self._sink.write(pointer, self._chunks(pointer)))  # noqa: B023
            else:
                self._fail(pointer, problem)

    async def _one(self, pointer: Pointer, write: Callable[[], Awaitable[None]]) -> None:
        async def written() -> bool:
            await write()
            return True

        if await self._tried(pointer, written):
            self._count(pointer)

    async def _tried(self, pointer: Pointer, work: Callable[[], Awaitable[Result]]) -> Result | None:
        """Do the work for an object, repeated; None, and its problem counted, where it never succeeds."""
        for wrong in range(1, _MAX_WRONG + 1):
            try:
                return await repeated(work)
            except ObjectProblem as problem:
                if problem.kind is not Kind.WRONG or wrong == _MAX_WRONG:
                    self._fail(pointer, problem)
                    return None
            except Interrupted as error:
                if error.is_unreachable:
                    raise CommandError(f"{error.message}; tried {MAX_TRIES} times") from error
                self._fail(pointer, ObjectProblem(Kind.FAILED, f"{error.message}; tried {MAX_TRIES} times"))
                return None
        return None

    async def _chunks(self, pointer: Pointer) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._source.read(pointer)) as read, aclosing(self._rate.limited(read)) as limited:
            if self._sink.verifies:
                async for chunk in limited:
                    yield chunk
                return
            async with aclosing(checked(pointer, limited)) as whole:
                async for chunk in whole:
                    yield chunk

    def _count(self, pointer: Pointer) -> None:
        self.moved.copied_count += 1
        self.moved.copied_bytes += pointer.size
        self._advance(pointer.size)

    def _fail(self, pointer: Pointer, problem: ObjectProblem) -> None:
        self.moved.add_problem(pointer, problem)
        self._advance(pointer.size)


def pointers_of(spool: OidSpool) -> Iterator[Pointer]:
    """Yield the objects of a spool with their sizes, in ascending order of their oids."""
    for oid, size in spool.records():
        yield Pointer(oid, int.from_bytes(size))


def _groups(pointers: Sequence[Pointer], most: int) -> Iterator[Sequence[Pointer]]:
    """Yield objects that are written together: several small ones, or one."""
    group: list[Pointer] = []
    size = 0
    for pointer in pointers:
        if pointer.size > _SMALL_BYTES or most == 1:
            yield [pointer]
            continue
        if len(group) == min(most, _GROUP_OBJECTS) or size + pointer.size > _GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(pointer)
        size += pointer.size
    if group:
        yield group


async def _whole(chunks: AsyncGenerator[bytes, None]) -> bytes:
    """Return the bytes of a small object."""
    async with aclosing(chunks):
        held = [chunk async for chunk in chunks]
    return b"".join(held)
