"""Deadlines for object stores: the service waits out a short outage, and reports a long outage in time.

The facade waits 12 s for an answer, and as long for each piece of an upload to be taken; it waits 60 s for the answer
to an upload.
"""

CONNECT_SECONDS = 2.0
"""For a connection to be made; the attempt is then retried."""

RETRY_SECONDS = 9.0
"""From the first attempt of a request to the last."""

MAX_BACKOFF_SECONDS = 2.0
"""Between two attempts of a request."""

SILENCE_SECONDS = 5.0
"""For the next bytes of a response; the request is then retried."""

ANSWER_SECONDS = 11.0
"""For the response to a request that carries no bytes of an object, retries included."""

PIECE_SECONDS = 30.0
"""For the next piece of a download, and for an upload to take a piece; a part is being sent meanwhile."""

FINISH_SECONDS = 55.0
"""For the last bytes of an upload to arrive, and for the store to assemble the object."""

ABORT_SECONDS = 5.0
"""For the abort of an abandoned upload; anything left over is for `Bucket.discard`."""

CHECK_SECONDS = 4.0
"""For `ObjectStoreBackend.check`."""
