"""The share of the sessions that one user may have."""

import pytest

from services.ssh.errors import Refused
from services.ssh.shares import Shares


def test_a_user_has_a_quarter_of_the_sessions() -> None:
    """Other users still get theirs, and an ended session gives its place back."""
    shares = Shares(8)
    with shares.taken("alice"):
        with shares.taken("alice"), pytest.raises(Refused, match="too many sessions"), shares.taken("alice"):
            pass
        with shares.taken("alice"), shares.taken("bob"):
            pass


def test_a_small_service_has_one_session_for_each() -> None:
    """A quarter of one is not none."""
    with Shares(1).taken("alice"):
        pass
