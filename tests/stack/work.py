"""Four people at work on a stack, and what they hold it to."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.stack.clients import Crew, Worker
from tests.stack.compose import SERVICES, ComposeStack
from tests.support.certificates import CertificateFiles

REPOSITORY = "studio/film"
CREW = ("ada", "ben", "cleo", "dan")


def add_crew(stack: ComposeStack) -> dict[str, str]:
    """Make the repository and everybody who works in it; return their tokens."""
    stack.towpath("repo", "add", REPOSITORY)
    made = {}
    for name in CREW:
        stack.towpath("user", "add", name)
        made[name] = stack.towpath("token", "add", name, "--name", "tests")["secret"]
        stack.towpath("grant", name, REPOSITORY, "--role", "write")
    return made


@contextmanager
def at_work(
    stack: ComposeStack, tokens: dict[str, str], certificates: CertificateFiles, folder: Path
) -> Iterator[Crew]:
    """Put four people to work, through the proxy; at the end all that was acknowledged to them is looked at."""
    origin = f"https://{stack.address('proxy', 8443)}"

    def person(name: str) -> Worker:
        return Worker(
            name, folder / name, tokens[name], origin=origin, repository=REPOSITORY, trust=certificates.authority
        )

    with ThreadPoolExecutor() as pool:
        workers = list(pool.map(person, CREW))
        try:
            with Crew(workers) as crew:
                yield crew
        except ExceptionGroup as failures:
            # Those of the clients. When somebody reads of them, the stack is gone, and its log with it.
            failures.add_note(_told_of(stack, str(failures.exceptions)))
            raise
        _require_locks(stack, workers)
        list(pool.map(Worker.require_pushed, workers))


def _told_of(stack: ComposeStack, failure: str) -> str:
    """Return what the services have logged of the requests that a failure names."""
    ids = re.findall(r"request id (\w+)", failure)
    return "\n".join(line for line in stack.log(*SERVICES).splitlines() if any(each in line for each in ids))


def _require_locks(stack: ComposeStack, workers: list[Worker]) -> None:
    """Hold that no path is locked twice, and that the locks are those that were acknowledged and not given back."""
    standing = {lock["id"]: lock for lock in stack.towpath("lock", "list", REPOSITORY)}
    paths = [lock["path"] for lock in standing.values()]
    assert len(set(paths)) == len(paths)
    for worker in workers:
        ledger = worker.ledger
        assert {id_: standing[id_]["path"] for id_ in ledger.locks if id_ in standing} == ledger.locks
        assert {standing[id_]["owner"] for id_ in ledger.locks} == {worker.name}
        assert not ledger.unlocked & standing.keys()
