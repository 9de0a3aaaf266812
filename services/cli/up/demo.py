"""`towpath up --demo`: a repository and two users to try Towpath with."""

import json
import shlex
import sys
from contextlib import suppress

import httpx
from pydantic import SecretStr
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.connection import Administration, administration
from services.cli.up.data_directory import DataDirectory
from services.common.errors import AlreadyExists, NotFound
from services.common.files import write_secret

REPOSITORY = "demo/assets"

_TOKEN_NAME = "demo"  # noqa: S105 - the name of a token, not its secret
_GRANTS = [
    pb.GrantAccessRequest(user_name="alice", repository=REPOSITORY, role=pb.ROLE_WRITE),
    pb.GrantAccessRequest(user_name="bob", repository=REPOSITORY, role=pb.ROLE_READ),
    pb.GrantAccessRequest(user_name="bob", repository=REPOSITORY, role=pb.ROLE_WRITE, ref_patterns=["refs/heads/bob"]),
]
_PROBE_SECONDS = 60.0
_LINES = """\
Try it with git and git-lfs, in a second terminal and an empty folder:

    TOKEN=$(sed -n 's/.*"alice": "\\(.*\\)".*/\\1/p' {file})
    git init --quiet --bare assets.git && git clone --quiet assets.git work && cd work
    git lfs install --local && git config lfs.url "{url}"
    git lfs track '*.bin' && head -c 1000000 /dev/urandom > big.bin
    git add . && git commit --quiet -m 'Add a large file' && git push origin HEAD
    git lfs lock big.bin && git lfs locks

Tokens: {file} has those of alice, who may write, and of bob, who may read, and write on the branch bob.
Data: {data}; Ctrl-C stops Towpath, and the next start goes on with the same data.

"""


async def provide_demo(directory: DataDirectory, admin_address: str, *, origin: str, shown_origin: str) -> None:
    """Make what the demo lacks, write `demo.json`, and print the commands that try it on the standard error.

    `origin` is the facade's origin for this process, and `shown_origin` for clients. Tokens that still work are reused.
    """
    base_url = f"{shown_origin}/{REPOSITORY}"
    token = SecretStr(directory.admin_token.read_text().strip())
    async with administration(admin_address, token) as admin:
        await _provide_access(admin)
        tokens = _written_tokens(directory)
        for user in ("alice", "bob"):
            if not await _works(origin, tokens.get(user, "")):
                tokens[user] = await _new_token(admin, user)
    document = {"base_url": base_url, "users": {user: tokens[user] for user in ("alice", "bob")}}
    write_secret(directory.demo, json.dumps(document, indent=2) + "\n")
    # Print a variable instead of the token, because our output may go to a log.
    url = base_url.replace("://", "://alice:$TOKEN@", 1)
    file, data = (shlex.quote(str(path)) for path in (directory.path / directory.demo.name, directory.path))
    sys.stderr.write(_LINES.format(url=url, file=file, data=data))


async def _provide_access(admin: Administration) -> None:
    with suppress(AlreadyExists):
        await admin.call(admin.stub.CreateRepository, pb.CreateRepositoryRequest(name=REPOSITORY))
    for user in ("alice", "bob"):
        with suppress(AlreadyExists):
            await admin.call(admin.stub.CreateUser, pb.CreateUserRequest(name=user))
    for grant in _GRANTS:
        await admin.call(admin.stub.GrantAccess, grant)


def _written_tokens(directory: DataDirectory) -> dict[str, str]:
    try:
        users = json.loads(directory.demo.read_text())["users"]
        return {user: str(users[user]) for user in ("alice", "bob") if user in users}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


async def _works(origin: str, token: str) -> bool:
    if not token:
        return False
    # Not verified: the facade listens on our own socket, at an address that its certificate need not name.
    async with httpx.AsyncClient(base_url=origin, timeout=_PROBE_SECONDS, trust_env=False, verify=False) as client:  # noqa: S501
        response = await client.get(
            f"/{REPOSITORY}/locks",
            params={"limit": "1"},
            headers={"Authorization": f"Bearer {token}", "Accept": "application/vnd.blob+json"},
        )
    return response.status_code != httpx.codes.UNAUTHORIZED


async def _new_token(admin: Administration, user: str) -> str:
    with suppress(NotFound):
        await admin.call(admin.stub.RevokeToken, pb.RevokeTokenRequest(user_name=user, name=_TOKEN_NAME))
    response = await admin.call(admin.stub.CreateToken, pb.CreateTokenRequest(user_name=user, name=_TOKEN_NAME))
    return response.secret
