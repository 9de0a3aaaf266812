"""Refusals that the page of a form shows, because its user can mend them."""

from services.common.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Reason,
    ResourceExhausted,
    ServiceError,
)

_STATUSES: dict[type[ServiceError], int] = {
    AlreadyExists: 409,
    FailedPrecondition: 409,
    InvalidArgument: 422,
    NotFound: 404,
    PermissionDenied: 403,
    ResourceExhausted: 403,
}


def status_of_refusal(error: ServiceError) -> int:
    """Return the HTTP status of a page that shows a refusal. Raises the error again if its user cannot mend it."""
    if error.reason == Reason.NOT_ADMINISTRATOR or type(error) not in _STATUSES:
        raise error
    return _STATUSES[type(error)]
