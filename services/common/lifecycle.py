"""When a process stops: on SIGTERM or SIGINT, or when the process that started it is gone."""

import asyncio
import os
import signal


def stop_event(lifeline_fd: int | None) -> asyncio.Event:
    """Return an event that is set by SIGTERM, by SIGINT, or when the other end of the lifeline closes.

    The lifeline is the reading end of a pipe whose writing end the parent holds; the kernel closes that
    one however the parent dies. To be called in the running event loop, once.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    if lifeline_fd is not None:
        os.set_blocking(lifeline_fd, False)

        def parent_is_gone() -> None:
            loop.remove_reader(lifeline_fd)
            stop.set()

        loop.add_reader(lifeline_fd, parent_is_gone)
    return stop
