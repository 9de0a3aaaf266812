"""Metrics of the services, as a scraper inside the stack reads them."""

import pytest

from tests.stack.compose import SERVICES, ComposeStack
from tests.stack.scrape import require_metrics


@pytest.mark.parametrize("service", SERVICES)
def test_metrics_need_their_token(service: str, single: ComposeStack) -> None:
    """Each service tells its metrics to who shows the token, and to nobody else."""
    require_metrics(single, service)
