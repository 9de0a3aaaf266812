"""URLs of stores as they may be shown."""

import re

_USER_INFO = re.compile(r"//[^\s]*@")
_UNKNOWN_OPTION = re.compile(r"([?&](?!(?:endpoint|region|addressing|account)=)[^=&]*=)[^&]*")


def without_credentials(url: str) -> str:
    """Return the URL of a store, which must not contain credentials; if it does all the same, they are masked."""
    if url.startswith("file:"):
        return url
    return _UNKNOWN_OPTION.sub(r"\1***", _USER_INFO.sub("//***@", url))
