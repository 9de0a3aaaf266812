"""Git repositories full of pointers, made without the objects that these name."""

from collections.abc import Mapping
from pathlib import Path

from tests.support.git import Workspace, run
from tests.support.http import oid_of

_SPEC = "https://git-lfs.github.com/spec/v1"


def pointer(data: bytes) -> bytes:
    """Return the pointer of git-lfs to some bytes."""
    return f"version {_SPEC}\noid sha256:{oid_of(data)}\nsize {len(data)}\n".encode()


def commit_pointers(workspace: Workspace, remote: Path, contents: Mapping[str, bytes]) -> None:
    """Add a commit to `main` of a bare repository whose files are pointers to these contents; git-lfs is not asked."""
    marks = {name: mark for mark, name in enumerate(contents, 1)}
    stream = bytearray()
    for name, data in contents.items():
        content = pointer(data)
        stream += b"blob\nmark :%d\ndata %d\n%b\n" % (marks[name], len(content), content)
    message = b"Add large files"
    stream += b"commit refs/heads/main\ncommitter a <a@b.test> 1700000000 +0000\ndata %d\n%b\n" % (
        len(message),
        message,
    )
    if workspace.git("rev-parse", "--verify", "--quiet", "main", cwd=remote, check=False).returncode == 0:
        stream += b"from refs/heads/main^0\n"
    for name, mark in marks.items():
        stream += b"M 100644 :%d %b\n" % (mark, name.encode())
    file = workspace.home / "fast-import"
    file.write_bytes(stream)
    run("sh", "-c", 'git fast-import --quiet < "$1"', "sh", file, cwd=remote, environment=workspace.environment)
