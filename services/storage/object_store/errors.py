"""What a store's refusals and silences mean.

The libraries' own errors hold addresses and answers, and so perhaps signatures: nothing of their text is logged or
passed on but what is picked out here.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from botocore.exceptions import BotoCoreError, ClientError
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from services.common.errors import Reason, ServiceError, Unavailable
from services.common.logs import get_logger
from services.storage.refusals import storage_full

_STATUS = re.compile(r"\bstatus: (\d{3})\b")
_CODE = re.compile(r"<Code>([A-Za-z0-9.]{1,64})</Code>")
_KIND = re.compile(r"\bkind: ([A-Z][A-Za-z]{1,30})\b")

_FULL_STATUS = "507"
_FULL_CODES = frozenset({"XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded", "InsufficientStorage"})

_log = get_logger(__name__)


def describe(error: BaseException) -> str:
    """Return what happened in a few words, none of them secret."""
    if isinstance(error, ClientError):
        status = str(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
        found = [status, error.response.get("Error", {}).get("Code", "")]
    else:
        text = str(error)
        found = [match[1] for pattern in (_STATUS, _CODE, _KIND) if (match := pattern.search(text))]
    return ", ".join(filter(None, [type(error).__name__, *found]))


def _is_full(error: BaseException) -> bool:
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    return (status is not None and status[1] == _FULL_STATUS) or (code is not None and code[1] in _FULL_CODES)


def _translated(error: BaseException, doing: str) -> ServiceError:
    cause = describe(error)
    if _is_full(error):
        _log.warning("the object store has no room left", doing=doing, cause=cause)
        return storage_full()
    _log.warning("the object store does not do what it is asked", doing=doing, cause=cause)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return Unavailable(Reason.UNAVAILABLE, "the object store does not accept the credentials of this service")
    return Unavailable(Reason.UNAVAILABLE, "the object store does not answer")


@asynccontextmanager
async def asked(doing: str, seconds: float | None) -> AsyncIterator[None]:
    """Wait for the store at most so long, or as long as it takes, and raise its errors as ours.

    Raises `Unavailable`, or `ResourceExhausted` (STORAGE_FULL) where the store says so. A FileNotFoundError passes.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except (BaseError, BotoCoreError, ClientError, TimeoutError) as error:
        raise _translated(error, doing) from None
