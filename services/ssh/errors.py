"""Failures of a session over SSH."""


class Refused(Exception):
    """A command that is answered with a status of HTTP and a message; the session goes on."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class TurnedAway(Refused):
    """A session that would be one too many."""


class ProtocolError(Exception):
    """Input that is not the protocol: the session ends with the message."""


class Disconnected(Exception):
    """The client is gone, or silent for too long."""
