"""Settings of gRPC itself that both ends share."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""A page of 1,000 locks with the longest paths must fit."""

CHUNK_BYTES = 1024 * 1024
"""The most bytes of an object that one message of a stream carries."""

SHARED_BYTES = 2 * CHUNK_BYTES
"""The most bytes of an object that one message tells of, where they go through shared memory."""

ADMIN_METADATA_KEY = "towpath-storage-admin"
"""The metadata in which a caller shows the secret of administration, as `Bearer SECRET`."""

Options = list[tuple[str, int]]

_SHARED: Options = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A stream holds no more unread bytes than this; what gRPC measures for itself grows to many MiB for each.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", CHUNK_BYTES),
    # A piece of an object goes in few frames, each of which costs both ends some work; other calls go in between.
    ("grpc.http2.max_frame_size", 256 * 1024),
]


def _keepalive(*, every: int, timeout: int) -> Options:
    """Return the options, in milliseconds, that end a connection on which pings are not answered."""
    return [
        ("grpc.keepalive_time_ms", every),
        ("grpc.keepalive_timeout_ms", timeout),
        # The one above is not enough: a keepalive ping is a ping, and those have a minute.
        ("grpc.http2.ping_timeout_ms", timeout),
    ]


_CHANNEL: Options = [
    *_SHARED,
    # A service that restarts is found again within a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.http2.max_pings_without_data", 0),
]
_LOCAL_CHANNEL: Options = [
    # To try a unix socket costs nothing, and whoever starts or restarts the process waits for it.
    ("grpc.max_reconnect_backoff_ms", 100),
    # A process of this host that is gone leaves no connection behind; one that hangs is noticed within 20 s.
    *_keepalive(every=10_000, timeout=10_000),
]
_REMOTE_CHANNEL: Options = [
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A peer that is gone without a word is noticed within 7 s, so that a call with a deadline of 12 s finds another, or
    # the same when the network is back; also where nothing is called, so that the next call need not find out.
    *_keepalive(every=3_000, timeout=4_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Which replicas there are is asked again whenever a connection ends.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    # The variables of HTTP proxies are meant for the world outside.
    ("grpc.enable_http_proxy", 0),
]

_SERVER: Options = [
    *_SHARED,
    # Callers ping as above; that is no abuse.
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
]
_REMOTE_SERVER: Options = [
    # A caller that is gone without a word does not hold its streams for long.
    *_keepalive(every=10_000, timeout=10_000),
]


def is_local(address: str) -> bool:
    """Tell whether an address is a unix socket, which only processes of this host can reach."""
    return address.startswith("unix:")


def channel_options(address: str) -> Options:
    """Return gRPC's options for a channel to this address."""
    return [*_CHANNEL, *(_LOCAL_CHANNEL if is_local(address) else _REMOTE_CHANNEL)]


def server_options(address: str, *, connection_seconds: float) -> Options:
    """Return gRPC's options for a server on this address.

    A connection over a network is ended after `connection_seconds`, give or take a tenth, so that its caller asks again
    which replicas there are. What runs on it runs on: the caller is told first, and nothing is cut off.
    """
    if is_local(address):
        return _SERVER
    return [*_SERVER, *_REMOTE_SERVER, ("grpc.max_connection_age_ms", int(connection_seconds * 1000))]
