"""Prometheus metrics of the SSH service. `program` is what a client has asked for, or "other"."""

from prometheus_client import Counter, Gauge

SESSIONS = Counter(
    "towpath_ssh_sessions_total", "Sessions over SSH that have ended, by what came of them.", ["program", "result"]
)
IN_FLIGHT = Gauge("towpath_ssh_sessions_in_flight", "Sessions over SSH that run.")
REFUSED_COMMANDS = Counter(
    "towpath_ssh_commands_refused_total",
    "Commands in sessions that were answered with a status of failure.",
    ["status"],
)
OTHER = "other"
TURNED_AWAY = "turned_away"
