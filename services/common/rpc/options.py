"""Options of gRPC itself for channels and servers, and limits that both ends share."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The most bytes of a message. The largest page of locks, 3,000 with the longest paths, must fit."""

CHUNK_BYTES = 1024 * 1024
"""The most bytes of an object that one message of a stream carries."""

SHARED_BYTES = 2 * CHUNK_BYTES
"""The most bytes of an object that one message refers to, if they go through shared memory."""

ADMIN_METADATA_KEY = "towpath-storage-admin"
"""The metadata key under which a caller presents the secret of the storage's administration, as `Bearer SECRET`."""

SSH_METADATA_KEY = "towpath-ssh"
"""The metadata key under which the SSH service presents its secret, as `Bearer SECRET`."""

MAX_STREAMS = 4_096
"""The most calls at once on a connection; a caller's further ones wait for the end of others.

A facade has one connection to a service, beside those that end. With its defaults, it makes a few calls for each of 512
requests, and watches the locks of at most 1,000 repositories, of 2,048 of which a lock service lets one host watch.
"""

Options = list[tuple[str, int]]

_SHARED: Options = [
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A conflict carries the standing lock, with the longest path and the longest note, in the trailing metadata.
    ("grpc.max_metadata_size", 16 * 1024),
    # Bounds the unread bytes of a stream; the window that gRPC measures by itself grows to many MiB for each stream.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", CHUNK_BYTES),
    # A chunk of an object needs few frames, because each frame costs both ends work; frames of other calls fit between.
    ("grpc.http2.max_frame_size", 256 * 1024),
]


def _keepalive(*, every: int, timeout: int) -> Options:
    """Return the options, in milliseconds, that end a connection on which pings are not answered."""
    return [
        ("grpc.keepalive_time_ms", every),
        ("grpc.keepalive_timeout_ms", timeout),
        # The keepalive timeout alone is not enough: a keepalive is a ping, and a ping times out after a minute.
        ("grpc.http2.ping_timeout_ms", timeout),
    ]


_CHANNEL: Options = [
    *_SHARED,
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A service that restarts is found again within a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.http2.max_pings_without_data", 0),
]
_LOCAL_CHANNEL: Options = [
    # An attempt on a unix socket costs nothing, and callers wait while the process starts or restarts.
    ("grpc.max_reconnect_backoff_ms", 100),
    # A dead process of this host leaves no connection behind; a process that hangs is detected within 20 s.
    *_keepalive(every=10_000, timeout=10_000),
]
_REMOTE_CHANNEL: Options = [
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A vanished peer is detected within 7 s, so that a call with a deadline of 12 s finds another peer, or the same one
    # when the network is back. Pings without calls spare the next call the detection.
    *_keepalive(every=3_000, timeout=4_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # The replicas are resolved again whenever a connection ends.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    # The HTTP proxies in the environment are meant for external addresses.
    ("grpc.enable_http_proxy", 0),
]

_SERVER: Options = [
    *_SHARED,
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    # Callers ping as configured above, and the server must not treat that as abuse.
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
]


def is_local(address: str) -> bool:
    """Return whether an address is a unix socket, reachable only for processes of this host."""
    return address.startswith("unix:")


def channel_options(address: str) -> Options:
    """Return gRPC's options for a channel to this address."""
    return [*_CHANNEL, *(_LOCAL_CHANNEL if is_local(address) else _REMOTE_CHANNEL)]


def server_options(address: str, *, connection_seconds: float, message_bytes: int) -> Options:
    """Return gRPC's options for a server on this address, which takes messages of at most `message_bytes`.

    A connection over a network is ended after `connection_seconds`, give or take a tenth, so that its caller resolves
    the replicas again. The caller is notified first, and calls in flight are not cut off.
    """
    server = [*_SERVER, ("grpc.max_receive_message_length", message_bytes)]
    if is_local(address):
        return server
    # The streams of a vanished caller are ended soon.
    keepalive = _keepalive(every=10_000, timeout=10_000)
    return [*server, *keepalive, ("grpc.max_connection_age_ms", int(connection_seconds * 1000))]
