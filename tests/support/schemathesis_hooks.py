"""A media type that schemathesis does not know; its configuration names this file."""

import schemathesis

schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")
