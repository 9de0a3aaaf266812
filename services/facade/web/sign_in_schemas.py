"""Bodies of requests and answers about sign-in."""

from typing import Annotated, Literal

from pydantic import Field

from services.facade.web.schemas import Body


class TokenExchange(Body):
    """The form of a token exchange (RFC 8693)."""

    grant_type: Literal["urn:ietf:params:oauth:grant-type:token-exchange"]
    subject_token: Annotated[str, Field(min_length=1)]
    subject_token_type: Literal[
        "urn:ietf:params:oauth:token-type:id_token",
        "urn:ietf:params:oauth:token-type:jwt",
        "urn:ietf:params:oauth:token-type:access_token",
    ]


class TokenRevocation(Body):
    """The form of a token's revocation (RFC 7009); hints about its type are not needed."""

    token: Annotated[str, Field(min_length=1)]


class ExchangedToken(Body):
    """The answer to a token exchange (RFC 8693); `user` is the name of the token's user."""

    access_token: str
    issued_token_type: Literal["urn:ietf:params:oauth:token-type:access_token"]
    token_type: Literal["Bearer"]
    expires_in: int
    user: str


class SignIn(Body):
    """An issuer at which people sign in, with the client that they use there, and its secret where it needs one."""

    name: str
    issuer: str
    client_id: str
    client_secret: str | None = None


class SignIns(Body):
    """The issuers at which people sign in."""

    issuers: list[SignIn]
