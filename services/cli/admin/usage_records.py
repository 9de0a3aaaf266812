"""Printed fields of usage and of limits. They are the fields of the JSON output, and do not change."""

from typing import Any

from towpath.access.v1 import admin_service_pb2 as admin
from towpath.storage.v1.storage_service_pb2 import DayUsage, RepositoryUsage, SetLimitsResponse, UserUsage


def usage_record(entry: admin.ListUsageResponse.Usage) -> dict[str, Any]:
    """Return the printed fields of a repository's usage; sizes are in bytes, and today is the current UTC day.

    `growth_bytes` is that of 30 days. Limits that do not exist are absent, and `reserved_bytes` without a quota.
    """
    record: dict[str, Any] = {
        "repository": entry.repository,
        "object_count": entry.usage.object_count,
        "object_bytes": entry.usage.object_bytes,
        "removed_count": entry.usage.removed_count,
        "bin_bytes": entry.usage.bin_bytes,
        "bytes_in_today": entry.usage.bytes_in_today,
        "bytes_out_today": entry.usage.bytes_out_today,
        "locks": entry.locks,
        "growth_bytes": entry.usage.growth_bytes,
        **_limits(entry.usage),
    }
    if entry.usage.HasField("quota_bytes"):
        record["reserved_bytes"] = entry.usage.reserved_bytes
    return record


def day_record(held: DayUsage) -> dict[str, Any]:
    """Return the printed fields of what a repository held at the end of a day, today as of now."""
    return {"day": held.day, "object_count": held.object_count, "object_bytes": held.object_bytes}


def user_usage_record(user: str, usage: UserUsage) -> dict[str, Any]:
    """Return the printed fields of what a user has brought; `quota_bytes` is absent for any number."""
    record = {"user": user, "object_count": usage.object_count, "object_bytes": usage.object_bytes}
    return record | ({"quota_bytes": usage.quota_bytes} if usage.HasField("quota_bytes") else {})


def limit_fields(limits: SetLimitsResponse.Limits, *, as_json: bool) -> dict[str, Any]:
    """Return own limits in bytes, without those that are the default.

    No limit is 0, and `none` in the output for people.
    """
    return {name: size if size or as_json else "none" for name, size in _limits(limits).items()}


def _limits(limits: RepositoryUsage | SetLimitsResponse.Limits) -> dict[str, int]:
    return {name: getattr(limits, name) for name in ("quota_bytes", "bandwidth_bytes") if limits.HasField(name)}
