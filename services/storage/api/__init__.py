"""gRPC servicers. Each method translates a message, calls one function and translates the result; no rules, no SQL."""
