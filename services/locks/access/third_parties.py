"""Questions to third parties, which are forges and issuers: for whom they are asked, and the share of one address.

An error with the metadata `undecided` leaves open whether a credential is good. The facade counts it as a bad one,
unless the metadata is `free`: the address has used up its share of what good credentials cost too.
"""

import asyncio
from collections.abc import Hashable
from typing import NamedTuple
from weakref import WeakValueDictionary

from services.common.errors import Reason, ResourceExhausted

_RETRY_SECONDS = 5


class Asker(NamedTuple):
    """The client for which a third party would be asked: the key of its address, which is empty if it is not known.

    An address that `is_limited` has shown so many bad credentials that nobody is asked for it.
    """

    address: str = ""
    is_limited: bool = False


NOBODY = Asker()
"""An asker without an address, for what no client has caused."""


def check_may_ask(asker: Asker) -> None:
    """Raise `ResourceExhausted` (RATE_LIMITED) if nobody is asked for an address."""
    if asker.is_limited:
        message = "too many bad credentials came from your address: new ones are not checked for a while"
        raise ResourceExhausted(Reason.RATE_LIMITED, message, retry_after=str(_RETRY_SECONDS), undecided="true")


class AddressSlots:
    """The slots that single addresses occupy at once, `most` of each address."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._slots: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, asker: Asker, *within: Hashable) -> asyncio.Semaphore:
        """Return the slots of an address, in which a block waits for one; those of no address are nobody else's."""
        slots = asyncio.Semaphore(self._most)
        return self._slots.setdefault((asker.address, *within), slots) if asker.address else slots
