"""The caller of a request."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Caller:
    """The user of a request; an anonymous caller has the id 0 and no name."""

    user_id: int = 0
    name: str = ""
    token_id: int = 0
    """The id of the token presented; 0 where there is none, or the lock service's version does not report it."""
    scoped: bool = False
    """True where the token, and not only its user, decides what the caller may do."""
    credential: str = field(default="", repr=False)
    """The credential where the lock service needs it to renew the access; else empty."""
    requests_per_hour: int = 0
    """The limit of the user's requests; 0 for none."""
    token_requests_per_hour: int = 0
    """The limit of the requests with this token; 0 for none."""

    administrator: bool = False
    """True if AdminService admits the user with this token."""
    is_refused_by_pages: bool = False
    """True for the token of a program or of an SSH session."""
    shown: str = field(default="", repr=False)
    """The credential that was shown; empty for an anonymous caller."""

    @property
    def deciding_token_id(self) -> int:
        """The id of the token if it decides what the caller may do, else 0."""
        return self.token_id if self.scoped else 0
