"""Logs, metrics, request ids and traces of a process; nothing that a service decides."""
