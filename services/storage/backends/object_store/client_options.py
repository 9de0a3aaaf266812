"""Options of the HTTP clients for all clouds: timeouts, retries and backoff."""

from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from services.storage.backends.object_store.deadlines import (
    CONNECT_SECONDS,
    PIECE_SECONDS,
    RETRY_SECONDS,
    SILENCE_SECONDS,
)

if TYPE_CHECKING:  # these are types of obstore that do not exist at run time
    from obstore.store import ClientConfig, RetryConfig

# The most that a download of a large object to a slow client may take.
_DOWNLOAD = timedelta(days=7)


class StoreOptions(TypedDict):
    """The options that every store class of obstore accepts."""

    client_options: "ClientConfig"
    retry_config: "RetryConfig"


def _retries() -> "RetryConfig":
    # Time limits the retries, not their number. obstore retries after status 429 or 5xx, and after a broken connection.
    return {
        "max_retries": 100,
        "retry_timeout": timedelta(seconds=RETRY_SECONDS),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=2),
            "base": 2,
        },
    }


def upload_options(endpoint: str | None) -> StoreOptions:
    """Return the options for requests that send bytes to the store: a request may take as long as a part may."""
    client: ClientConfig = {
        "allow_http": _is_http(endpoint),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "timeout": timedelta(seconds=PIECE_SECONDS),
    }
    return {"client_options": client, "retry_config": _retries()}


def request_options(endpoint: str | None) -> StoreOptions:
    """Return the options for all other requests: a response may take long, but must not be silent for long."""
    client: ClientConfig = {
        "allow_http": _is_http(endpoint),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "read_timeout": timedelta(seconds=SILENCE_SECONDS),
        "timeout": _DOWNLOAD,
    }
    return {"client_options": client, "retry_config": _retries()}


def _is_http(endpoint: str | None) -> bool:
    return endpoint is not None and endpoint.startswith("http:")
