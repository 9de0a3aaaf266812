"""gRPC servicers: translate a message, call one function, translate back; no rule and no SQL."""
