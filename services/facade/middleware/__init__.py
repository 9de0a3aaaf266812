"""ASGI middleware around every request; contains no rule of an endpoint."""
