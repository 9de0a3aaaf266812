"""Settings of gRPC itself that both ends share."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""A page of 1,000 locks with the longest paths must fit."""

CHUNK_BYTES = 1024 * 1024
"""The most bytes of an object that one message of a stream carries."""

SHARED_OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A stream holds no more unread bytes than this; what gRPC measures for itself grows to many MiB for each.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", CHUNK_BYTES),
]


def is_local(address: str) -> bool:
    """Tell whether an address is a unix socket, which only processes of this host can reach."""
    return address.startswith("unix:")
