"""ASGI layers around every request; no rule of an endpoint."""
