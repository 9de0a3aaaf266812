"""Tests of the operator's view of the services: log lines, metrics, traces, alerts."""
