"""The tests: as callers do, functions for rules, gRPC for a service, HTTP for the facade, processes for the whole."""
