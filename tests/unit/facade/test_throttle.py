"""How repeated bad credentials are slowed (client row 6)."""

from services.facade.throttle import FailedLogins


def test_the_limit_is_for_each_address() -> None:
    """After it, the seconds are told until the next may come."""
    failed = FailedLogins("3/minute")
    assert [failed.count("a") for _ in range(3)] == [0, 0, 0]
    assert 1 <= failed.count("a") <= 60
    assert failed.count("b") == 0
