"""Unit tests of services.common.concurrency."""
