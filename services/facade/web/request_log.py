"""The log line of a request."""

from starlette.types import Scope

# A HEAD request counts as the same operation as GET.
_SAME = {"head_healthz": "healthz", "head_readyz": "readyz"}


def add_log_fields(scope: Scope, **fields: str | int) -> None:
    """Add fields to the log line of a request; never a credential."""
    scope["state"]["log"].update(fields)


def operation_of(scope: Scope) -> str:
    """Return the operation id of the endpoint that a request has reached; "other" where there is none."""
    operation = getattr(scope.get("route"), "operation_id", None) or "other"
    return _SAME.get(operation, operation)
