"""Pages of lists that a call returns whole."""

from google.protobuf.timestamp_pb2 import Timestamp

from services.facade.pages.site.lists import latest_first, number_key, part_of

NAMES = [f"name-{number:02d}" for number in range(25)]


def pages(entries: list[str], most: int) -> list[list[str]]:
    """Return all pages, by following the cursors."""
    found, cursor = [], ""
    while True:
        part = part_of(entries, str, cursor, most=most)
        found.append(part.entries)
        if not (cursor := part.next_cursor):
            return found


def test_the_pages_have_each_entry_once_and_in_order() -> None:
    """The list is not sorted, because the order of a database's collation may differ from that of the keys."""
    assert pages(NAMES[::-1], 10) == [NAMES[:10], NAMES[10:20], NAMES[20:]]


def test_a_page_that_ends_with_the_list_has_no_next_one() -> None:
    """A link to an empty page would be a riddle."""
    assert pages(NAMES[:20], 10) == [NAMES[:10], NAMES[10:20]]
    assert pages([], 10) == [[]]


def test_an_entry_that_is_gone_shifts_no_page() -> None:
    """The last entry of a page may be removed before the next page is asked for."""
    cursor = part_of(NAMES, str, most=10).next_cursor
    remaining = [name for name in NAMES if name != cursor]
    assert part_of(remaining, str, cursor, most=10).entries == NAMES[10:20]


def test_the_total_is_that_of_the_whole_list() -> None:
    """A page says of how many entries it is."""
    assert part_of(NAMES, str, NAMES[20], most=10).total == len(NAMES)


def test_keys_order_numbers_and_times() -> None:
    """Of two at one time, the lower number comes first."""
    assert number_key(9) < number_key(10)
    earlier, later = Timestamp(seconds=999_999_999), Timestamp(seconds=1_000_000_000)
    assert latest_first(later, 1) < latest_first(earlier, 1)
    assert latest_first(later, 9) < latest_first(later, 10)
