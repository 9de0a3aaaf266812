"""Options of the HTTP clients for all clouds: timeouts, retries and backoff."""

from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from services.storage.backends.object_store.deadlines import (
    CONNECT_SECONDS,
    MAX_BACKOFF_SECONDS,
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


def upload_options(endpoint: str | None) -> StoreOptions:
    """Return the options for requests that send bytes to the store: a request may take as long as a part may."""
    return _options(endpoint, {"timeout": timedelta(seconds=PIECE_SECONDS)})


def request_options(endpoint: str | None) -> StoreOptions:
    """Return the options for all other requests: a response may take long, but must not be silent for long."""
    return _options(endpoint, {"timeout": _DOWNLOAD, "read_timeout": timedelta(seconds=SILENCE_SECONDS)})


def _options(endpoint: str | None, timeouts: "ClientConfig") -> StoreOptions:
    client: ClientConfig = {
        "allow_http": endpoint is not None and endpoint.startswith("http:"),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        **timeouts,
    }
    # Time limits the retries, not their number. obstore retries after status 429 or 5xx, and after a broken connection.
    retries: RetryConfig = {
        "max_retries": 100,
        "retry_timeout": timedelta(seconds=RETRY_SECONDS),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=MAX_BACKOFF_SECONDS),
            "base": 2,
        },
    }
    return {"client_options": client, "retry_config": retries}
