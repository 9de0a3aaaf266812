"""The base address of a repository (docs/protocol.md, "Base address")."""

_ALIAS = "/info/lfs"


def repository_name_in(base: str) -> str:
    """Return the repository's name in what stands before an endpoint's own path.

    `NAME`, `NAME.git`, both with `/info/lfs` after them, and each of the four with one slash at its end are the same.
    What can be a name is known to the AccessService alone: any other is a repository that does not exist.
    """
    return base.removesuffix("/").removesuffix(_ALIAS).removesuffix(".git")
