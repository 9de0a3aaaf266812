"""The error for a JSON Web Token that is refused."""

from services.common.errors import Reason, Unauthenticated


def refused(message: str, **metadata: str) -> Unauthenticated:
    """Return the error for a JSON Web Token that is refused.

    The metadata `refused` says that the owner of the token may read the message: it tells what the token says itself,
    and nothing about anybody's account.
    """
    error = Unauthenticated(Reason.BAD_CREDENTIALS, message, refused="true")
    error.metadata.update(metadata)
    return error
