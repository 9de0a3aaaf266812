"""The four lock calls: asked of the lock service, and shown as the protocol has them."""
