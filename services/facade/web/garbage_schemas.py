"""The body of the answer to a collection of garbage."""

from typing import Annotated

from pydantic import Field

from services.facade.web.schemas import TIME_PATTERN, Body

_Time = Annotated[str, Field(pattern=TIME_PATTERN)]


class CollectionAnswer(Body):
    """The objects of a repository that are garbage, and those that were removed."""

    garbage_count: int
    """The number of objects that were garbage before any was removed."""
    garbage_bytes: int
    freed_bytes: int
    """Those of the bytes that no other repository needs."""
    oldest_created_at: _Time | None = None
    """The time at which the repository got the oldest garbage; absent if there is none."""
    newest_created_at: _Time | None = None
    held_count: int
    held_bytes: int
    grace_count: int
    """The number of objects that are not retained, and too new to be garbage."""
    retained_count: int
    """The number of objects in the list."""
    retained_held_count: int
    """The number of them that the repository holds."""
    returning_count: int
    """The number of them that lay in the bin as garbage."""
    applied: bool
    """True if garbage was removed, as the request asked."""
    removed_count: int
    removed_bytes: int
    returned_count: int
    """The number of retained objects that came back from the bin."""
