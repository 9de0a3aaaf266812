"""Refusals that the page of a form shows."""

import pytest

from services.common.errors import (
    AlreadyExists,
    FailedPrecondition,
    NotFound,
    PermissionDenied,
    Reason,
    ResourceExhausted,
    ServiceError,
    Unauthenticated,
    Unavailable,
)
from services.facade.pages.refusals import status_of_refusal


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AlreadyExists(Reason.TOKEN_EXISTS, "taken"), 409),
        (FailedPrecondition(Reason.HOOK_DISABLED, "disabled"), 409),
        (NotFound(Reason.TOKEN_NOT_FOUND, "gone"), 404),
        (PermissionDenied(Reason.ACCESS_DENIED, "no"), 403),
        (ResourceExhausted(Reason.TOO_MANY_TOKENS, "enough"), 403),
    ],
)
def test_what_a_user_can_mend_is_shown_in_the_page_of_the_form(error: ServiceError, status: int) -> None:
    """The page has the status that the interface would give."""
    assert status_of_refusal(error) == status


@pytest.mark.parametrize(
    "error",
    [
        Unavailable(Reason.UNAVAILABLE, "later"),
        Unauthenticated(Reason.BAD_CREDENTIALS, "over"),
        PermissionDenied(Reason.NOT_ADMINISTRATOR, "no"),
        ServiceError(Reason.INTERNAL, "broken"),
    ],
)
def test_anything_else_goes_to_the_error_page(error: ServiceError) -> None:
    """The message of an internal failure is not for users."""
    with pytest.raises(type(error)):
        status_of_refusal(error)
