"""The four lock calls: requests to the lock service, and the rendering of its replies."""
