"""Sizes in decimal units, as people read them."""

WARNED_PERCENT = 80
"""The share of a quota from which on it is warned of."""

_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB")


def decimal_size(count: int) -> str:
    """Return a number of bytes with three digits at most, such as `412 GB`, `1.5 GB` or `20 bytes`."""
    if count < 1000:
        return f"{count} {'byte' if count == 1 else 'bytes'}"
    size = float(count)
    for unit in _UNITS:
        size /= 1000
        # 999.6 kB would be written as 1000 kB.
        if size < 999.5 or unit == _UNITS[-1]:
            break
    digits = 0 if size >= 99.95 else 1
    return f"{size:.{digits}f}".removesuffix(".0") + f" {unit}"


def is_warned_of(used: int, quota: int) -> bool:
    """Return whether so much of a quota is used that it is warned of."""
    return used * 100 >= quota * WARNED_PERCENT


def quota_message(used: int, quota: int, *, is_of_user: bool = False) -> str:
    """Return the message to an upload for which a quota has no room, such as `412 GB of 500 GB used`."""
    return f"{decimal_size(used)} of {'your ' if is_of_user else ''}{decimal_size(quota)} used"
