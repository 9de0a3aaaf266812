"""Translation of an object store's errors and timeouts into errors of this service.

The errors of the libraries contain URLs and responses, and therefore perhaps signatures: only the details that this
module extracts from their text are logged or passed on.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError
from obstore.exceptions import BaseError, UnauthenticatedError

from services.common.errors import Reason, ServiceError, Unavailable
from services.common.observability.logs import get_logger
from services.storage.errors import storage_full

# obstore's text of an error response has a status and a code; its text of a request without a response has a kind.
_STATUS = re.compile(r"\bstatus: (\d{3})\b")
_CODE = re.compile(r"<Code>([A-Za-z0-9.]{1,64})</Code>")
_KIND = re.compile(r"\bkind: ([A-Z][A-Za-z]{1,30})\b")

_BAD_CREDENTIALS = ("401", "403")
# 408 and 429 ask for a retry.
_REFUSED = re.compile(r"4(?!08|29)\d\d")
_FULL = "507"
_FULL_CODES = ("XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded", "InsufficientStorage")

_log = get_logger(__name__)


@dataclass(frozen=True)
class Cause:
    """The extract of a library's error: its class, and the store's status and code or the kind of failure."""

    name: str
    status: str
    code: str

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.name, self.status, self.code)))


def cause_of(error: BaseException) -> Cause:
    """Return the cause of an error, without anything secret."""
    name = type(error).__name__
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
        return Cause(name, str(status), error.response.get("Error", {}).get("Code", ""))
    text = str(error)
    status, code, kind = (match[1] if (match := pattern.search(text)) else "" for pattern in (_STATUS, _CODE, _KIND))
    return Cause(name, status, code or kind)


def _translated(error: BaseException, doing: str) -> ServiceError:
    cause = cause_of(error)
    _log.warning("the object store does not do what it is asked", doing=doing, cause=str(cause))
    if cause.status == _FULL or cause.code in _FULL_CODES:
        return storage_full()
    if cause.status in _BAD_CREDENTIALS or isinstance(error, UnauthenticatedError):
        return Unavailable(Reason.UNAVAILABLE, "the object store does not accept the credentials of this service")
    if _REFUSED.fullmatch(cause.status):
        return Unavailable(Reason.UNAVAILABLE, "the object store refuses what it is asked")
    return Unavailable(Reason.UNAVAILABLE, "the object store does not answer")


@asynccontextmanager
async def asked(doing: str, seconds: float | None) -> AsyncIterator[None]:
    """Bound the wait for the store by `seconds`, if any, and translate its errors.

    Raises `Unavailable`, or `ResourceExhausted` (STORAGE_FULL) if the store says so. A block whose object may be
    missing must itself catch the FileNotFoundError that obstore raises.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except (BaseError, FileNotFoundError, BotoCoreError, ClientError, TimeoutError) as error:
        raise _translated(error, doing) from None
