"""Meaning of object store URLs, keys of blobs, and sizes of parts."""

from datetime import timedelta
from pathlib import Path

import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import S3Store

from services.common.errors import InvalidArgument
from services.storage.backends.object_store.keys import key_of, name_of
from services.storage.backends.object_store.location import AzureLocation, GcsLocation, S3Location, parse
from services.storage.backends.object_store.s3 import open_bucket
from services.storage.backends.object_store.upload import MEBIBYTE, PART_BYTES, part_bytes

OID = "abcdef0123456789" * 4
NAME = f"{OID}.{'0' * 16}"


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("s3://bucket", S3Location("bucket", "", None, None, "virtual")),
        ("s3://bucket/", S3Location("bucket", "", None, None, "virtual")),
        ("s3://bucket/a/b/?region=eu-west-1", S3Location("bucket", "a/b", None, "eu-west-1", "virtual")),
        ("s3://dotted.bucket", S3Location("dotted.bucket", "", None, None, "path")),
        (
            "s3://bucket/a?endpoint=http://127.0.0.1:8333/",
            S3Location("bucket", "a", "http://127.0.0.1:8333", None, "path"),
        ),
        (
            "s3://bucket?endpoint=https%3A%2F%2Fs3.example.org&addressing=virtual",
            S3Location("bucket", "", "https://s3.example.org", None, "virtual"),
        ),
        ("gs://bucket/a", GcsLocation("bucket", "a", None)),
        ("gs://bucket?endpoint=http://localhost:4443", GcsLocation("bucket", "", "http://localhost:4443")),
        ("az://container/a?account=studio", AzureLocation("container", "a", "studio", None)),
        (
            "s3://bucket?endpoint=http://store:8333&public_endpoint=https://s3.example.org",
            S3Location("bucket", "", "http://store:8333", None, "path", "https://s3.example.org"),
        ),
        (
            "az://container?account=studio&endpoint=http://127.0.0.1:10000/studio",
            AzureLocation("container", "", "studio", "http://127.0.0.1:10000/studio"),
        ),
    ],
)
def test_urls(url: str, location: object) -> None:
    """A URL says where the bytes lie."""
    assert parse(url) == location


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://", "the name of a bucket"),
        ("s3:bucket", "the name of a bucket"),
        ("s3://a/b", "the name of a bucket"),
        ("s3://bucket:80/b", "the name of a bucket"),
        ("s3://key:hunter2@bucket", "no credentials"),
        ("s3://bucket/a//b", "prefix: expected"),
        ("s3://bucket/../b", "prefix: expected"),
        ("s3://bucket/%00", "prefix: expected"),
        ("s3://bucket/a%2F..%2Fb", "prefix: expected"),
        ("s3://bucket#hunter2", "nothing after #"),
        (
            "s3://bucket?secret=hunter2",
            "expected each of addressing, endpoint, public_endpoint, region at most once",
        ),
        ("s3://bucket?hunter2", "s3: expected each of"),
        ("s3://bucket?region=a&region=b", "s3: expected each of"),
        ("s3://bucket?region=", "region=, letters"),
        ("s3://bucket?region=hunter2/", "region=, letters"),
        ("s3://bucket?addressing=hunter2", "addressing: expected path or virtual"),
        ("s3://bucket?endpoint=hunter2", "endpoint: expected"),
        ("s3://bucket?endpoint=ftp://host", "endpoint: expected"),
        ("s3://bucket?endpoint=http://host:port", "endpoint: expected"),
        ("s3://bucket?endpoint=http://key:hunter2@host", "endpoint: expected"),
        ("s3://bucket?endpoint=http://host?key=hunter2", "endpoint: expected"),
        ("s3://bucket?endpoint=http://[host", "endpoint: expected"),
        ("gs://bucket?public_endpoint=hunter2", "public_endpoint: expected"),
        ("gs://bucket?region=a", "gs: expected each of endpoint, public_endpoint at most once"),
        ("az://container?account=Not-One", "account=, 3 to 24"),
        ("az://container?sas=hunter2", "az: expected each of account, endpoint, public_endpoint"),
        ("ftp://bucket", "expected s3://, gs:// or az://"),
    ],
)
def test_other_urls(url: str, expected: str) -> None:
    """Every other URL is refused: the error says what was expected, and repeats no secret."""
    with pytest.raises(ValueError, match=r"^storage_url: ") as caught:
        parse(url)
    assert expected in str(caught.value)
    assert "hunter2" not in str(caught.value)


@given(st.text())
def test_any_text_is_a_location_or_a_value_error(text: str) -> None:
    """Whatever stands in a URL, parsing it ends in a location or a ValueError that says what was expected."""
    for url in (f"s3://bucket{text}", f"az://{text}", f"gs://bucket?endpoint={text}"):
        try:
            location = parse(url)
        except ValueError as error:
            assert str(error).startswith("storage_url: ")  # noqa: PT017 - it may be raised, and need not be
        else:
            assert ".." not in location.prefix.split("/")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("s3://bucket", "https://bucket.s3.amazonaws.com/key?"),
        ("s3://bucket?region=eu-west-1", "https://bucket.s3.eu-west-1.amazonaws.com/key?"),
        ("s3://bucket?region=cn-north-1", "https://bucket.s3.cn-north-1.amazonaws.com.cn/key?"),
        ("s3://dotted.bucket?region=eu-west-1", "https://s3.eu-west-1.amazonaws.com/dotted.bucket/key?"),
        ("s3://bucket?endpoint=https://s3.example.org:9000", "https://s3.example.org:9000/bucket/key?"),
        ("s3://bucket?endpoint=https://s3.example.org&addressing=virtual", "https://bucket.s3.example.org/key?"),
    ],
)
def test_addresses_of_s3(url: str, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Requests go where AWS has its buckets, or below the endpoint, whatever addresses the environment names."""
    for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(variable, str(tmp_path / "none"))
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://elsewhere.example.org")
    location = parse(url)
    assert isinstance(location, S3Location)
    bucket = open_bucket(location)
    for store in (bucket.requests, bucket.uploads):
        assert isinstance(store, S3Store)
        assert obstore.sign(store, "GET", "key", timedelta(minutes=1)).startswith(address)


def test_keys() -> None:
    """A key is made of the prefix and of the name's folders, and only such a key gives the name back."""
    assert key_of("", OID) == f"objects/ab/cd/{OID}"
    assert key_of("a/b", NAME) == f"a/b/objects/ab/cd/{NAME}"
    assert name_of("a/b", key_of("a/b", NAME)) == NAME
    for key in (f"objects/ab/cd/{NAME}", f"a/b/objects/ab/ce/{NAME}", f"a/b/objects/ab/cd/{NAME}x", "", "a/b/objects/"):
        assert name_of("a/b", key) is None


@given(st.text(max_size=80))
def test_trap_28_nothing_but_a_name_becomes_a_key(text: str) -> None:
    """A key is only built from a name (trap-28)."""
    with pytest.raises(ValueError, match="name: expected"):
        key_of("", text + "/")


@given(st.integers(0, 5 * 1024**4))
def test_parts_keep_to_the_bounds_of_s3(size: int) -> None:
    """There are never more than 10,000 parts, none but the last is under 5 MiB, and they are no larger than needed."""
    length = part_bytes(size)
    assert length % MEBIBYTE == 0
    assert length >= PART_BYTES
    assert length * 10_000 >= size
    assert length == PART_BYTES or (length - MEBIBYTE) * 10_000 < size


def test_parts_of_known_sizes() -> None:
    """Up to 48 GiB parts have 5 MiB; a terabyte takes 105."""
    assert part_bytes(2 * 1024**3) == PART_BYTES
    assert part_bytes(10_000 * PART_BYTES) == PART_BYTES
    assert part_bytes(10_000 * PART_BYTES + 1) == PART_BYTES + MEBIBYTE
    assert part_bytes(1024**4) == 105 * MEBIBYTE
    with pytest.raises(InvalidArgument, match="size: expected at most"):
        part_bytes(5 * 1024**4 + 1)
