"""The errors with which a command fails."""


class CommandError(Exception):
    """A command cannot do what it was asked; the message says why, and the exit status is 1."""


class NotReached(CommandError):
    """The service that a command needs does not run, or does not answer."""
