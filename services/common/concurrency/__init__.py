"""Tools for asyncio that depend on no service: micro-batching, a circuit breaker, periodic and uncancellable work."""
