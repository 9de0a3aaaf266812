"""How requests are made, to any of the clouds: timeouts, repeats, pauses between them."""

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

# A download of a big object to a slow client takes this long at most.
_DOWNLOAD = timedelta(days=7)


class StoreOptions(TypedDict):
    """What each kind of store of obstore takes."""

    client_options: "ClientConfig"
    retry_config: "RetryConfig"


def _retries() -> "RetryConfig":
    # Time bounds them, not their number. What is answered 429 or 5xx is repeated, and what breaks off.
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
    """Return the options for requests that carry bytes to the store: one may take as long as a part may."""
    client: ClientConfig = {
        "allow_http": _is_http(endpoint),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "timeout": timedelta(seconds=PIECE_SECONDS),
    }
    return {"client_options": client, "retry_config": _retries()}


def request_options(endpoint: str | None) -> StoreOptions:
    """Return the options for all other requests: an answer may take long, but not be silent for long."""
    client: ClientConfig = {
        "allow_http": _is_http(endpoint),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "read_timeout": timedelta(seconds=SILENCE_SECONDS),
        "timeout": _DOWNLOAD,
    }
    return {"client_options": client, "retry_config": _retries()}


def _is_http(endpoint: str | None) -> bool:
    return endpoint is not None and endpoint.startswith("http:")
