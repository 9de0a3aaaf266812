"""Tests of the parts that all services share: gRPC servers and channels, errors, request ids."""
