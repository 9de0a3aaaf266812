"""What an operator sees of the services: log lines, metrics, traces, alerts."""
