"""Groups, forges, issuers of JSON Web Tokens, the identities of users there, and SSH keys."""

from datetime import datetime

from sqlalchemy import CheckConstraint, Column, Index, UniqueConstraint
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field

from services.locks.models.base import (
    Record,
    flag_column,
    identity_column,
    key_column,
    moment_column,
    number_column,
    optional_reference_column,
    reference_column,
    text_column,
    texts_column,
)

_ROLES = "role IN ('read', 'write', 'admin')"


class Group(Record, table=True):
    """A set of users that has grants."""

    __tablename__ = "groups"

    id: int = Field(sa_column=identity_column())
    name: str = Field(sa_column=text_column(unique=True))
    created_at: datetime = Field(sa_column=moment_column(now=True))
    requests_per_hour: int | None = Field(default=None, sa_column=number_column(nullable=True))


class GroupMember(Record, table=True):
    """A user that an administrator has added to a group."""

    __tablename__ = "group_members"
    __table_args__ = (Index(None, "user_id"),)

    group_id: int = Field(sa_column=key_column("groups.id"))
    user_id: int = Field(sa_column=key_column("users.id"))
    created_at: datetime = Field(sa_column=moment_column(now=True))


class GroupGrant(Record, table=True):
    """A role of all members of a group in a repository, with the same limits as a grant of a user."""

    __tablename__ = "group_grants"
    __table_args__ = (
        UniqueConstraint("group_id", "repository_id", "role"),
        CheckConstraint(_ROLES, name="role"),
        Index(None, "repository_id"),
    )

    id: int = Field(sa_column=identity_column())
    group_id: int = Field(sa_column=reference_column("groups.id", on_delete="CASCADE"))
    repository_id: int = Field(sa_column=reference_column("repositories.id", on_delete="CASCADE"))
    role: str = Field(sa_column=text_column())
    ref_patterns: list[str] = Field(sa_column=texts_column())
    created_at: datetime = Field(sa_column=moment_column(now=True))
    ignores_locks: bool = Field(default=False, sa_column=flag_column())


class Forge(Record, table=True):
    """A server of git repositories whose tokens are credentials in the repositories that are tied to it.

    `repositories` are patterns of names there, such as `acme/*`, to which a repository may be tied; with
    `creates_on_use`, one that matches is made when somebody who may write it uses it first.
    """

    __tablename__ = "forges"
    __table_args__ = (CheckConstraint("kind IN ('github', 'gitlab', 'gitea', 'forgejo')", name="kind"),)

    id: int = Field(sa_column=identity_column())
    name: str = Field(sa_column=text_column(unique=True))
    kind: str = Field(sa_column=text_column())
    api_url: str = Field(sa_column=text_column())
    repositories: list[str] = Field(sa_column=texts_column())
    creates_on_use: bool = Field(default=False, sa_column=flag_column())
    created_at: datetime = Field(sa_column=moment_column(now=True))


class TokenRole(Record, table=True):
    """The role that a forge has reported for a token of its own in a repository, valid until then."""

    __tablename__ = "token_roles"
    __table_args__ = (CheckConstraint(_ROLES, name="role"), Index(None, "repository_id"))

    token_id: int = Field(sa_column=key_column("tokens.id"))
    repository_id: int = Field(sa_column=key_column("repositories.id"))
    role: str = Field(sa_column=text_column())
    valid_until: datetime = Field(sa_column=moment_column())
    created_at: datetime = Field(sa_column=moment_column(now=True))


class ForgeLookups(Record, table=True):
    """The budget of look-ups at a forge that all lock services share, as the time until which it is used up.

    Credentials that the forge has accepted before have a budget of their own (`is_known`). The table is unlogged
    because its rows are written often and are worth little.
    """

    __tablename__ = "forge_lookups"
    __table_args__ = ({"prefixes": ["UNLOGGED"]},)

    forge_id: int = Field(sa_column=key_column("forges.id"))
    is_known: bool = Field(sa_column=flag_column(primary_key=True))
    budget_until: datetime = Field(sa_column=moment_column(now=True))


class Issuer(Record, table=True):
    """An issuer of JSON Web Tokens that are credentials, by OpenID Connect.

    `user_claim` and `groups_claim` name the claims with the name of the user and those of the user's groups; without
    a `user_claim`, its tokens are those of programs only, see `IssuerGrant`. People sign in by `client_id`, and by
    `client_secret` where the issuer asks for one; everybody reads both.
    """

    __tablename__ = "issuers"

    id: int = Field(sa_column=identity_column())
    name: str = Field(sa_column=text_column(unique=True))
    url: str = Field(sa_column=text_column(unique=True))
    audiences: list[str] = Field(sa_column=texts_column())
    client_id: str = Field(default="", sa_column=text_column(empty=True))
    client_secret: str = Field(default="", sa_column=text_column(empty=True))
    user_claim: str = Field(default="", sa_column=text_column(empty=True))
    groups_claim: str = Field(default="", sa_column=text_column(empty=True))
    created_at: datetime = Field(sa_column=moment_column(now=True))


class IssuerGroup(Record, table=True):
    """A group whose members are the users that have `value` in the claim of their groups."""

    __tablename__ = "issuer_groups"
    __table_args__ = (Index(None, "group_id"),)

    issuer_id: int = Field(sa_column=key_column("issuers.id"))
    value: str = Field(sa_column=text_column(primary_key=True))
    group_id: int = Field(sa_column=key_column("groups.id"))


class IssuerGrant(Record, table=True):
    """A role in a repository of every token whose claims match `claims`, patterns by the claim's name.

    If `ref_claim` names a claim, the token may write the ref in that claim only.
    """

    __tablename__ = "issuer_grants"
    __table_args__ = (CheckConstraint(_ROLES, name="role"), Index(None, "issuer_id"), Index(None, "repository_id"))

    id: int = Field(sa_column=identity_column())
    issuer_id: int = Field(sa_column=reference_column("issuers.id", on_delete="CASCADE"))
    repository_id: int = Field(sa_column=reference_column("repositories.id", on_delete="CASCADE"))
    role: str = Field(sa_column=text_column())
    claims: dict[str, str] = Field(sa_column=Column(JSONB, nullable=False))
    ref_claim: str = Field(default="", sa_column=text_column(empty=True))
    created_at: datetime = Field(sa_column=moment_column(now=True))


class TokenGroup(Record, table=True):
    """A group of a token's user that the issuer of the token has named; the membership ends with the token."""

    __tablename__ = "token_groups"
    __table_args__ = (Index(None, "group_id"),)

    token_id: int = Field(sa_column=key_column("tokens.id"))
    group_id: int = Field(sa_column=key_column("groups.id"))


class TokenGrant(Record, table=True):
    """A grant of an issuer that a token's claims match; `ref` is the only ref that it may write, empty for any."""

    __tablename__ = "token_grants"
    __table_args__ = (Index(None, "issuer_grant_id"),)

    token_id: int = Field(sa_column=key_column("tokens.id"))
    issuer_grant_id: int = Field(sa_column=key_column("issuer_grants.id"))
    ref: str = Field(default="", sa_column=text_column(empty=True))


class Identity(Record, table=True):
    """A user's account at a forge or an issuer, known by its unchanging `subject`; `login` is its name there."""

    __tablename__ = "identities"
    __table_args__ = (
        UniqueConstraint("forge_id", "subject"),
        UniqueConstraint("issuer_id", "subject"),
        CheckConstraint("num_nonnulls(forge_id, issuer_id) = 1", name="provider"),
        Index(None, "user_id"),
    )

    id: int = Field(sa_column=identity_column())
    user_id: int = Field(sa_column=reference_column("users.id", on_delete="CASCADE"))
    forge_id: int | None = Field(default=None, sa_column=optional_reference_column("forges.id", on_delete="CASCADE"))
    issuer_id: int | None = Field(default=None, sa_column=optional_reference_column("issuers.id", on_delete="CASCADE"))
    subject: str = Field(sa_column=text_column())
    login: str = Field(sa_column=text_column())
    created_at: datetime = Field(sa_column=moment_column(now=True))


class SshKey(Record, table=True):
    """A public key by which a user signs in over SSH; `fingerprint` is its SHA-256 as OpenSSH prints it."""

    __tablename__ = "ssh_keys"
    __table_args__ = (UniqueConstraint("user_id", "name"),)

    id: int = Field(sa_column=identity_column())
    user_id: int = Field(sa_column=reference_column("users.id", on_delete="CASCADE"))
    name: str = Field(sa_column=text_column())
    fingerprint: str = Field(sa_column=text_column(unique=True))
    public_key: str = Field(sa_column=text_column())
    created_at: datetime = Field(sa_column=moment_column(now=True))
