"""The progress of a copy."""

import pytest
from towpath.storage.v1.store_service_pb2 import Store

from services.facade.pages.site.stores import percent_of


@pytest.mark.parametrize(
    ("store", "percent"),
    [
        (Store(), 100),
        (Store(object_count=3, object_bytes=30), 100),
        (Store(lacking_count=1, lacking_bytes=10), 0),
        (Store(lacking_count=1), 0),
        (Store(object_count=1, object_bytes=10, lacking_count=1, lacking_bytes=30), 25),
        (Store(object_count=9, object_bytes=10**15, lacking_count=1, lacking_bytes=1), 99),
        (Store(object_count=9, object_bytes=10**15, lacking_count=1), 99),
    ],
)
def test_a_copy_is_at_a_hundred_percent_only_if_it_lacks_nothing(store: Store, percent: int) -> None:
    """A single small object that is missing of many is still missing."""
    assert percent_of(store) == percent
