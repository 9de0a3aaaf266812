"""Processes that are kept running."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.cli.errors import CommandError
from services.cli.processes import run_once
from services.cli.up import child as child_module
from services.cli.up.child import Child, Program
from services.cli.up.supervisor import Supervisor
from tests.support.loop import never
from tests.support.waiting import STEP_SECONDS, until

SLEEP = "import signal; signal.pause()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
ENVIRONMENT = {"PATH": os.environ["PATH"]}


def program(code: str, *, notes: Path | None = None) -> Program:
    """A program in Python that first adds its process id to `notes`, and answers when it has."""

    async def ready() -> None:
        if notes is not None:
            await lines(notes, 1)

    note = f"import os; open({str(notes)!r}, 'a').write(f'{{os.getpid()}}\\n'); " if notes else ""
    return Program("sleeper", [sys.executable, "-S", "-c", note + code], ENVIRONMENT, ready=ready)


@asynccontextmanager
async def running(what: Program, *, grace: float = STEP_SECONDS) -> AsyncIterator[Child]:
    """Run a child, and stop it."""
    child = Child(what)
    try:
        yield child
    finally:
        await child.stop(time.monotonic() + grace)


def note_lines(notes: Path) -> list[str]:
    """Return what the program has noted so far."""
    return notes.read_text().splitlines() if notes.exists() else []


async def lines(notes: Path, count: int) -> list[int]:
    """Wait until the program has been started so often, and return the process ids."""
    await until(lambda: len(note_lines(notes)) >= count, f"it is started {count} times")
    return [int(line) for line in note_lines(notes)]


def is_running(pid: int) -> bool:
    """Tell whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_started_again(tmp_path: Path) -> None:
    """A child that is killed is started again, and stopped in the end."""
    notes = tmp_path / "notes"
    async with running(program(SLEEP, notes=notes)) as child:
        await asyncio.wait_for(child.ready.wait(), STEP_SECONDS)
        [first] = await lines(notes, 1)
        os.kill(first, signal.SIGKILL)
        _, second = await lines(notes, 2)
        assert is_running(second)
    assert not is_running(second)


async def test_own_session(tmp_path: Path) -> None:
    """A Ctrl-C in the terminal does not reach a child."""
    notes = tmp_path / "notes"
    async with running(program(SLEEP, notes=notes)):
        [pid] = await lines(notes, 1)
        assert os.getsid(pid) == pid


HANG_SECONDS = 1.0
BEATING = """
import asyncio, os, signal
from services.common.lifecycle import stop_event
async def main():
    stop = stop_event(None, int(os.environ["TOWPATH_HEARTBEAT_FD"]))
    open({notes!r}, "a").write(f"{{os.getpid()}}\\n")
    {then}
    await stop.wait()
asyncio.run(main())
"""


def beating(notes: Path, *, then: str = "pass", hang_seconds: float = HANG_SECONDS) -> Program:
    """A process of ours that sends its first heartbeat, notes its id, and then does something in its loop."""
    code = BEATING.format(notes=str(notes), then=then)
    return Program(
        "sleeper", [sys.executable, "-P", "-c", code], ENVIRONMENT, tells_why=True, hang_seconds=hang_seconds
    )


async def test_one_that_hangs_is_started_again(tmp_path: Path) -> None:
    """A process that is stopped, or whose event loop waits, does not end by itself, so it is killed."""
    notes = tmp_path / "notes"
    async with running(beating(notes)):
        [first] = await lines(notes, 1)
        os.kill(first, signal.SIGSTOP)
        await lines(notes, 2)
        assert not is_running(first)
    notes.unlink()
    # A blocked loop does not heed a stop either.
    async with running(beating(notes, then="signal.pause()"), grace=0):
        await lines(notes, 2)


async def test_one_that_is_busy_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose loop is silent because it computes is not killed, until it uses the processor no more."""
    notes = tmp_path / "notes"
    monkeypatch.setattr(child_module, "HEARTBEAT_SECONDS", 0.1)
    async with running(beating(notes, then="exec('while True: pass')", hang_seconds=0.5), grace=0):
        [first] = await lines(notes, 1)
        await asyncio.sleep(0.8)
        assert is_running(first)
        os.kill(first, signal.SIGSTOP)
        await lines(notes, 2)


async def test_a_limit_that_is_off_kills_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent process goes on where there is no limit for its silence."""
    notes = tmp_path / "notes"
    monkeypatch.setattr(child_module, "HEARTBEAT_SECONDS", 0.01)
    async with running(beating(notes, hang_seconds=0)):
        [first] = await lines(notes, 1)
        os.kill(first, signal.SIGSTOP)
        # Time for many probes, of which two are enough to kill.
        await asyncio.sleep(0.3)
        assert is_running(first)
        os.kill(first, signal.SIGCONT)


@pytest.fixture
def quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children that are started again without a pause."""
    monkeypatch.setattr(child_module, "_MAX_PAUSE_SECONDS", 0.0)


@pytest.mark.usefixtures("quick_restarts")
async def test_given_up(tmp_path: Path) -> None:
    """A child that dies more than five times within a minute is given up."""
    notes = tmp_path / "notes"
    async with running(program("raise SystemExit(3)", notes=notes)) as child:
        with pytest.raises(CommandError, match="sleeper died 6 times within 60 s, the last time with exit status 3"):
            await asyncio.wait_for(asyncio.shield(child.ended), STEP_SECONDS)
    assert len(await lines(notes, 6)) == 6


@pytest.mark.usefixtures("quick_restarts")
async def test_deaths_of_earlier_minutes_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that dies now and then is started again, however often it has died before."""
    monkeypatch.setattr(child_module, "_DEATHS_SECONDS", 0.0)
    notes = tmp_path / "notes"
    async with running(program("raise SystemExit(3)", notes=notes)):
        assert len(await lines(notes, 8)) >= 8


async def test_stubborn_child_is_killed(tmp_path: Path) -> None:
    """A child that does not heed its signal is killed at the deadline."""
    notes = tmp_path / "notes"
    async with running(program(STUBBORN, notes=notes), grace=0.2):
        [pid] = await lines(notes, 1)
    assert not is_running(pid)


async def test_later_tiers_are_stopped_first(tmp_path: Path) -> None:
    """A tier ends when those that need it have ended."""
    ends = tmp_path / "ends"
    supervisor = Supervisor()
    for name in ("postgres", "storage", "facade"):
        notes = tmp_path / name
        code = (
            f"import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit()); "
            f"import atexit; atexit.register(lambda: open({str(ends)!r}, 'a').write('{name} ')); "
            f"open({str(notes)!r}, 'w').write('1'); signal.pause()"
        )
        supervisor.start(program(code), stop_seconds=STEP_SECONDS)
        await lines(notes, 1)
    await supervisor.stop()
    assert ends.read_text() == "facade storage postgres "


@pytest.mark.usefixtures("quick_restarts")
async def test_supervisor_raises_the_failure_of_a_child() -> None:
    """A start must not wait for a child that is given up, so the wait ends with the child's error."""
    supervisor = Supervisor()

    async def start() -> None:
        supervisor.start(program("raise SystemExit(1)"), stop_seconds=1)
        await never()

    with pytest.raises(CommandError, match="died 6 times"):
        await asyncio.wait_for(supervisor.run(start(), asyncio.Event()), STEP_SECONDS)
    await supervisor.stop()


async def test_supervisor_stops_while_it_starts() -> None:
    """A stop during the start is heeded at once."""
    stop = asyncio.Event()

    async def start() -> None:
        stop.set()
        await never()

    await asyncio.wait_for(Supervisor().run(start(), stop), STEP_SECONDS)


async def test_run_once() -> None:
    """A caller needs the output of a command, and after a failure the way in which it ended."""
    python = [sys.executable, "-S", "-c"]
    assert await run_once("it", [*python, "print('x')"], ENVIRONMENT, seconds=STEP_SECONDS) == ("x\n", "")
    told = "from services.common.failure import report; report('how it went')"
    command = [sys.executable, "-P", "-c", told]
    assert await run_once("it", command, ENVIRONMENT, seconds=STEP_SECONDS) == ("", "how it went")
    with pytest.raises(CommandError, match="it failed with exit status 4"):
        await run_once("it", [*python, "raise SystemExit(4)"], ENVIRONMENT, seconds=STEP_SECONDS)
    with pytest.raises(CommandError, match="it failed with SIGKILL"):
        await run_once("it", [*python, "import os; os.kill(os.getpid(), 9)"], ENVIRONMENT, seconds=STEP_SECONDS)
    with pytest.raises(CommandError, match="it: no end after"):
        await run_once("it", [*python, SLEEP], ENVIRONMENT, seconds=0.2)


@pytest.mark.usefixtures("quick_restarts")
async def test_reason_of_a_process_is_told() -> None:
    """The message that ends `towpath up` says why, because what the process itself printed is far above by then."""
    code = "from services.common.failure import fail; fail('sleeper', ValueError('TOWPATH_X: expected a number'))"
    command = [sys.executable, "-P", "-c", code]
    child = Child(Program("sleeper", command, ENVIRONMENT, tells_why=True))
    with pytest.raises(CommandError, match=r"with exit status 1: TOWPATH_X: expected a number$"):
        await asyncio.wait_for(asyncio.shield(child.ended), 120)
    with pytest.raises(CommandError, match=r"^it failed with exit status 1: TOWPATH_X: expected a number$"):
        await run_once("it", command, ENVIRONMENT, seconds=60)
