"""Stub forges: HTTP servers with the paths and answers of GitHub, GitLab, Gitea and Forgejo that a look-up needs."""

import base64
import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

KINDS = ("github", "gitlab", "gitea", "forgejo")
ROLES = ("read", "write", "admin")

_PREFIXES = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1", "forgejo": "/api/v1"}
_LEVELS = {"guest": 10, "read": 20, "write": 30, "admin": 40}


@dataclass
class Token:
    """A credential of a forge: that of an account, or of an app where `account` is 0."""

    account: int
    can_push: bool = True
    can_tell_account: bool = True


@dataclass
class Project:
    """A repository of a forge, and the role of each account in it."""

    id: int
    roles: dict[int, str] = field(default_factory=dict)
    visibility: str = "private"
    archived: bool = False


class Answer(NamedTuple):
    """An answer of the stub; a status of 0 ends the connection without any."""

    status: int
    body: object = None
    headers: dict[str, str] = {}  # noqa: RUF012 - a tuple's default, never changed


@dataclass
class StubForge:
    """A running stub. What a test changes counts from the next request on."""

    kind: str
    logins: dict[int, str] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    projects: dict[str, Project] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    instead: Answer | None = None
    """The answer to every request, while it is set."""
    held: threading.Event = field(default_factory=threading.Event)
    """Requests wait while this is not set."""
    port: int = 0
    number: int = field(default_factory=itertools.count(1).__next__)
    """A number that no other stub of the process has, for names; the port of one that has ended is used again."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """The path and the credential of every request."""

    def __post_init__(self) -> None:
        """Answer at once."""
        self.held.set()

    @property
    def api_url(self) -> str:
        """The URL of its interface."""
        return f"http://127.0.0.1:{self.port}{_PREFIXES[self.kind]}"

    @property
    def lookups(self) -> int:
        """The number of requests about a repository."""
        return sum("/repos" in path or "/projects/" in path for path, _ in self.requests)

    def add(self, login: str, token: str, role: str | None, project: str = "acme/film", **options: Any) -> int:  # noqa: ANN401 - the fields of `Token`
        """Add an account with a token and a role in a project, which is made if it is missing; return its id."""
        account = 1000 + len(self.logins)
        self.logins[account] = login
        self.tokens[token] = Token(account, **options)
        found = self.projects.setdefault(project, Project(id=1 + len(self.projects)))
        if role is not None:
            found.roles[account] = role
        return account

    def answer(self, path: str, authorization: str) -> Answer:
        """Return the answer to a GET."""
        parts = urlsplit(path)
        credential = _credential(authorization)
        self.requests.append((path, credential))
        self.held.wait()
        if self.instead is not None:
            return self.instead
        token = self.tokens.get(credential)
        if token is None:
            return Answer(401, {"message": "Bad credentials"})
        if parts.path.endswith("/info/refs"):
            return self._push(unquote(parts.path).removesuffix(".git/info/refs").strip("/"), token)
        rest = parts.path.removeprefix(_PREFIXES[self.kind])
        if rest == "/user":
            return self._user(token)
        if rest.startswith("/repositories/"):
            name = next(name for name, project in self.projects.items() if str(project.id) == rest.rpartition("/")[2])
            return self._project(name, token)
        if self.kind == "gitlab":
            # A name in more than one segment is another path there.
            name = unquote(rest.removeprefix("/projects/")) if rest.count("/") == 2 else ""
        else:
            name = unquote(rest.removeprefix("/repos/"))
        if (new := self.renamed.get(name)) is not None:
            target = self.projects[new].id
            path = f"/repositories/{target}" if self.kind == "github" else f"/projects/{new.replace('/', '%2F')}"
            path = f"/repos/{new}" if self.kind in ("gitea", "forgejo") else path
            return Answer(301, {"message": "Moved Permanently"}, {"Location": f"{self.api_url}{path}"})
        return self._project(name, token)

    def _user(self, token: Token) -> Answer:
        if not token.account:
            return Answer(403, {"message": "Resource not accessible by integration"})
        if not token.can_tell_account:
            return Answer(403, {"message": "token does not have at least one of required scope(s): [read:user]"})
        login = self.logins[token.account]
        return Answer(200, {"id": token.account, "username" if self.kind == "gitlab" else "login": login})

    def _push(self, name: str, token: Token) -> Answer:
        project = self.projects.get(name)
        if project is None or not self._role(project, token):
            return Answer(404)
        may_push = token.can_push and self._role(project, token) in ("write", "admin")
        return Answer(200 if may_push and not project.archived else 403)

    def _role(self, project: Project, token: Token) -> str | None:
        role = project.roles.get(token.account)
        return role or ("read" if project.visibility == "public" else None)

    def _project(self, name: str, token: Token) -> Answer:
        project = self.projects.get(name)
        role = self._role(project, token) if project is not None else None
        if project is None or role is None:
            return Answer(404, {"message": "Not Found"})
        if self.kind == "gitlab":
            level = _LEVELS[role] if token.account in project.roles else None
            access = {"access_level": level, "notification_level": 3} if level else None
            return Answer(
                200,
                {
                    "id": project.id,
                    "path_with_namespace": name,
                    "visibility": project.visibility,
                    "archived": project.archived,
                    "repository_access_level": "enabled",
                    "permissions": {"project_access": None, "group_access": access},
                },
                {"RateLimit-Remaining": "1999", "RateLimit-Limit": "2000"},
            )
        body: dict[str, object] = {
            "id": project.id,
            "full_name": name,
            "private": project.visibility == "private",
            "archived": project.archived,
        }
        if token.account:
            at = ROLES.index(role)
            body["permissions"] = {"admin": at >= 2, "push": at >= 1, "pull": True}
        return Answer(200, body, {"X-RateLimit-Remaining": "4999", "X-RateLimit-Limit": "5000"})


def throttled(kind: str, seconds: int = 60) -> Answer:
    """Return the answer by which a forge of this kind says that it wants fewer requests, from this host."""
    reset = str(int(time.time()) + seconds)
    if kind == "github":
        message = "API rate limit exceeded for 192.0.2.1."
        return Answer(403, {"message": message}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset})
    if kind == "gitlab":
        headers = {"RateLimit-Name": "throttle_unauthenticated_api", "RateLimit-Reset": reset}
        return Answer(429, "Retry later", {**headers, "Retry-After": str(seconds)})
    return Answer(503, "", {"Retry-After": str(seconds)})


def _credential(authorization: str) -> str:
    scheme, _, value = authorization.partition(" ")
    return base64.b64decode(value).decode().partition(":")[2] if scheme == "Basic" else value


@contextmanager
def running_forge(kind: str) -> Iterator[StubForge]:
    """Run a stub of this kind, in threads of this process."""
    forge = StubForge(kind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body, headers = forge.answer(self.path, self.headers.get("Authorization", ""))
            if status == 0:
                self.close_connection = True
                return
            data = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", "Content-Length": len(data), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing of a client that has gone."""

    with Server(("127.0.0.1", 0), Handler) as server:
        forge.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield forge
        finally:
            forge.held.set()
            server.shutdown()
