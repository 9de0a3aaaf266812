"""The facade: the protocol over HTTP, in front of the storage service and the lock service."""
