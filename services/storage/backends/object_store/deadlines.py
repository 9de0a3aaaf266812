"""How long an object store is waited for, so that a short outage is waited out and a long one is told in time.

The facade waits 12 s for an answer and for each piece of an upload to be taken; that of an upload may take 60 s.
"""

CONNECT_SECONDS = 2.0
"""For a connection to be made; then it is tried again."""

RETRY_SECONDS = 9.0
"""From the first attempt of a request to the last."""

SILENCE_SECONDS = 5.0
"""For the next bytes of an answer; then the request is made again."""

ANSWER_SECONDS = 11.0
"""For the answer to a request that carries no bytes of an object, repeats included."""

PIECE_SECONDS = 30.0
"""For the next piece of a download, and for an upload to take one; a part is on its way meanwhile."""

FINISH_SECONDS = 55.0
"""For the last bytes of an upload to arrive, and for the store to put it together."""

ABORT_SECONDS = 5.0
"""For an upload that is given up to be taken back; what is left then is for `discard`."""

CHECK_SECONDS = 4.0
"""For `check`."""
