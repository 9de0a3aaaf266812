"""Reports of refusals: a flood of some callers takes no room of others."""

from services.facade.auth.refusal_reports import Refusal, RefusalReports


async def test_a_flood_takes_no_room_of_others() -> None:
    """Neither one of strangers, nor one of a user; and users are reported first."""
    reports = RefusalReports()
    for number in range(2_000):
        reports.add(Refusal(request_id=f"stranger-{number}"))
        reports.add(Refusal(request_id=f"loud-{number}", user_name="loud"))
    for number in range(450):
        reports.add(Refusal(request_id=f"user-{number}", user_name=f"user-{number}"))
    batch = [refusal.request_id for refusal in await reports.next_batch()]
    assert batch == [*(f"loud-{number}" for number in range(100)), *(f"user-{number}" for number in range(400))]
    batch = [refusal.request_id for refusal in await reports.next_batch()]
    assert batch == [f"stranger-{number}" for number in range(500)]


async def test_room_is_there_again_after_a_report() -> None:
    """A user whose refusals were reported is not over the limit for ever."""
    reports = RefusalReports()
    for _ in range(2):
        for number in range(150):
            reports.add(Refusal(request_id=str(number), user_name="loud"))
        assert [refusal.request_id for refusal in await reports.next_batch()] == [str(n) for n in range(100)]
    reports.add(Refusal(request_id="last"))
    assert [refusal.request_id for refusal in await reports.next_batch()] == ["last"]
