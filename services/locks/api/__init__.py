"""gRPC servicers: each method translates a message, calls one function and translates back; no rules and no SQL."""
