"""Users, tokens, repositories and grants."""

from datetime import datetime

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    LargeBinary,
    Text,
    UniqueConstraint,
    text,
)
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

FORCED_BY_WRITERS = "writers"
FORCED_BY_ADMINS = "admins"


class User(Record, table=True):
    """A person or a program that has tokens."""

    __tablename__ = "users"

    id: int = Field(sa_column=identity_column())
    name: str = Field(sa_column=text_column(unique=True))
    administrator: bool = Field(sa_column=Column(Boolean, nullable=False))
    created_at: datetime = Field(sa_column=moment_column(now=True))
    requests_per_hour: int | None = Field(default=None, sa_column=number_column(nullable=True))


class Token(Record, table=True):
    """A credential; only the SHA-256 of its secret is stored.

    A token with a `forge_id` is a token of that forge; a token with an `issuer_id` is a JSON Web Token of that issuer,
    or was given for one; a token with an `ssh_key_id` was given to who has shown that key, for one repository.
    """

    __tablename__ = "tokens"
    __table_args__ = (
        UniqueConstraint("user_id", "name"),
        Index(None, "forge_id", postgresql_where=text("forge_id IS NOT NULL")),
        Index(None, "issuer_id", "expires_at", postgresql_where=text("issuer_id IS NOT NULL")),
        Index(None, "ssh_key_id", postgresql_where=text("ssh_key_id IS NOT NULL")),
        Index(None, "ssh_repository_id", postgresql_where=text("ssh_repository_id IS NOT NULL")),
    )

    id: int = Field(sa_column=identity_column())
    user_id: int = Field(sa_column=reference_column("users.id", on_delete="CASCADE"))
    name: str = Field(sa_column=text_column())
    token_hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    created_at: datetime = Field(sa_column=moment_column(now=True))
    expires_at: datetime | None = Field(sa_column=moment_column(nullable=True))
    forge_id: int | None = Field(default=None, sa_column=optional_reference_column("forges.id", on_delete="CASCADE"))
    issuer_id: int | None = Field(default=None, sa_column=optional_reference_column("issuers.id", on_delete="CASCADE"))
    ssh_key_id: int | None = Field(
        default=None, sa_column=optional_reference_column("ssh_keys.id", on_delete="CASCADE")
    )
    ssh_repository_id: int | None = Field(
        default=None, sa_column=optional_reference_column("repositories.id", on_delete="CASCADE")
    )
    ssh_may_write: bool | None = Field(default=None, sa_column=Column(Boolean, nullable=True))
    requests_per_hour: int | None = Field(default=None, sa_column=number_column(nullable=True))


class TokenUse(Record, table=True):
    """The last use of a token, in a separate table because an update of `tokens` counts as a revocation."""

    __tablename__ = "token_uses"

    token_id: int = Field(sa_column=key_column("tokens.id"))
    used_at: datetime = Field(sa_column=moment_column())


class RevokedToken(Record, table=True):
    """A revoked token, retained for a while so that its refusal can say why; see `access.tokens`."""

    __tablename__ = "revoked_tokens"
    __table_args__ = (Index(None, "user_id"), Index(None, "revoked_at"))

    token_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    user_id: int = Field(sa_column=reference_column("users.id", on_delete="CASCADE"))
    name: str = Field(sa_column=text_column())
    revoked_at: datetime = Field(sa_column=moment_column(now=True))


class Repository(Record, table=True):
    """A repository, with its rules for locks.

    `forced_unlock` names the users that may remove the locks of others: `writers` or `admins`. A lock older than
    `stale_after_seconds` may be stolen by every writer. The history of a released lock is deleted after
    `history_seconds`. A push to a ref that matches `release_on` releases its pusher's locks on the pushed paths.
    `lock_spaces` are rules for the space of a ref, see `locking.spaces`. A repository with a `forge_id` is tied to
    `forge_repository` there; in a `restricted` one, reading needs the right to write at the forge. An archived
    repository may only be read. A repository in the bin has `in_bin_since`, and a name that no client can ask for; its
    own one is `removed_name`.
    """

    __tablename__ = "repositories"
    __table_args__ = (
        CheckConstraint("forced_unlock IN ('writers', 'admins')", name="forced_unlock"),
        Index(None, "forge_id"),
        Index(None, "removed_name", "in_bin_since", postgresql_where=text("in_bin_since IS NOT NULL")),
    )

    id: int = Field(sa_column=identity_column())
    name: str = Field(sa_column=text_column(unique=True))
    public: bool = Field(sa_column=Column(Boolean, nullable=False))
    forced_unlock: str = Field(sa_column=text_column())
    created_at: datetime = Field(sa_column=moment_column(now=True))
    stale_after_seconds: int | None = Field(default=None, sa_column=number_column(nullable=True))
    history_seconds: int | None = Field(default=None, sa_column=number_column(nullable=True))
    release_on: list[str] = Field(default=[], sa_column=texts_column())
    lock_spaces: list[str] = Field(default=[], sa_column=texts_column())
    forge_id: int | None = Field(default=None, sa_column=optional_reference_column("forges.id", on_delete="RESTRICT"))
    forge_repository: str = Field(default="", sa_column=text_column(empty=True))
    restricted: bool = Field(default=False, sa_column=flag_column())
    archived_at: datetime | None = Field(default=None, sa_column=moment_column(nullable=True))
    in_bin_since: datetime | None = Field(default=None, sa_column=moment_column(nullable=True))
    removed_name: str = Field(default="", sa_column=text_column(empty=True))
    in_bin_until: datetime | None = Field(default=None, sa_column=moment_column(nullable=True))


class RepositoryAlias(Record, table=True):
    """An earlier name of a repository, which leads clients to it for a while."""

    __tablename__ = "repository_aliases"
    __table_args__ = (Index(None, "repository_id"),)

    name: str = Field(sa_column=text_column(primary_key=True))
    repository_id: int = Field(sa_column=reference_column("repositories.id", on_delete="CASCADE"))
    valid_until: datetime = Field(sa_column=moment_column())
    created_at: datetime = Field(sa_column=moment_column(now=True))


class RemovedRepository(Record, table=True):
    """A removed repository, recorded until the storage service has removed its objects too."""

    __tablename__ = "removed_repositories"

    id: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    name: str = Field(sa_column=text_column())
    public: bool = Field(sa_column=Column(Boolean, nullable=False))
    forced_unlock: str = Field(sa_column=text_column())
    created_at: datetime = Field(sa_column=moment_column())


class Grant(Record, table=True):
    """A user's role in a repository; ref patterns limit the refs that the user may write.

    With `ignores_locks`, the user may push changes of paths that others have locked.
    """

    __tablename__ = "grants"
    __table_args__ = (
        UniqueConstraint("user_id", "repository_id", "role"),
        CheckConstraint("role IN ('read', 'write', 'admin')", name="role"),
        Index(None, "repository_id"),
    )

    id: int = Field(sa_column=identity_column())
    user_id: int = Field(sa_column=reference_column("users.id", on_delete="CASCADE"))
    repository_id: int = Field(sa_column=reference_column("repositories.id", on_delete="CASCADE"))
    role: str = Field(sa_column=text_column())
    ref_patterns: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    created_at: datetime = Field(sa_column=moment_column(now=True))
    ignores_locks: bool = Field(default=False, sa_column=flag_column())


class RateState(Record, table=True):
    """The theoretical arrival time of a user or a token whose requests are limited; see `access.gcra`.

    Each limit has a row of its own, because a moment of one rate says nothing about another: after a change from 1/h to
    600/min, the next request would have to wait for an hour.
    The table is unlogged because its rows are written often and are worth nothing a few seconds later.
    """

    __tablename__ = "rate_states"
    __table_args__ = ({"prefixes": ["UNLOGGED"]},)

    is_token: bool = Field(sa_column=Column(Boolean, primary_key=True))
    holder_id: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    requests_per_hour: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    tat: datetime = Field(sa_column=moment_column())


class FailedLogin(Record, table=True):
    """The debt of an address for bad credentials, or of another holder for its share; see `failed_logins`.

    The table is unlogged because its rows are written often, are worth little, and expire within minutes.
    """

    __tablename__ = "failed_logins"
    __table_args__ = (Index(None, "debt_until"), {"prefixes": ["UNLOGGED"]})

    address: str = Field(sa_column=Column(Text(collation="C"), primary_key=True))
    debt_until: datetime = Field(sa_column=moment_column())
