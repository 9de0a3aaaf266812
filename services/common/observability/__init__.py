"""Logs, metrics, request ids and traces of a process; no logic of a service."""
