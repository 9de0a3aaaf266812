"""One look-up at a forge: whose credential it is, and what it may do in a repository."""

import time
from dataclasses import dataclass

from services.locks.access.policy import Role
from services.locks.forges.gitea import Gitea
from services.locks.forges.github import GitHub
from services.locks.forges.gitlab import GitLab
from services.locks.forges.kinds import Account, CredentialRefusedError, Kind, basic
from services.locks.forges.patterns import matches_any
from services.locks.forges.web import Answer, Web
from services.locks.models import Forge

KINDS: dict[str, Kind] = {"github": GitHub(), "gitlab": GitLab(), "gitea": Gitea(), "forgejo": Gitea()}


@dataclass(frozen=True, slots=True)
class Report:
    """The answer of a forge: the role, the account if it was asked for, and the start of the look-up (monotonic)."""

    role: Role | None
    account: Account | None
    asked_at: float

    @property
    def age(self) -> float:
        """The seconds since the look-up began."""
        return time.monotonic() - self.asked_at


async def look_up(web: Web, forge: Forge, credential: str, repository: str, *, with_account: bool) -> Report:
    """Ask a forge about a credential and a repository there. Raises `CredentialRefusedError`, `ForgeUnavailableError`.

    A repository that was renamed counts under its new name, which has to match the patterns of the forge: otherwise
    whoever takes a repository elsewhere would decide who may use ours.
    """
    kind, asked_at = KINDS[forge.kind], time.monotonic()

    async def get(path: str) -> Answer:
        return await web.get(f"{forge.api_url}{path}", kind.headers(credential))

    account = kind.account_of(await get("/user")) if with_account else None
    access = kind.access_of(await get(kind.repository_path(repository)))
    if access is None:
        if with_account and account is None:
            raise CredentialRefusedError
        return Report(None, account, asked_at)
    role = access.role if matches_any(forge.repositories, access.name) else None
    # What a forge says of a repository is what the account may do; the credential may be one for reading only.
    if role in (Role.WRITE, Role.ADMIN) and not await _may_push(web, kind, forge, credential, access.name):
        role = Role.READ
    return Report(role, account or access.account, asked_at)


async def _may_push(web: Web, kind: Kind, forge: Forge, credential: str, repository: str) -> bool:
    """Return whether git could push with the credential: the forge answers the first request of a push."""
    url = f"{kind.git_url(forge.api_url, repository)}/info/refs?service=git-receive-pack"
    return await web.status(url, basic(credential)) == 200
