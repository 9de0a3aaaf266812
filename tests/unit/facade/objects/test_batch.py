"""Actions or the error of each entry of a batch."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import InvalidArgument, ResourceExhausted
from services.facade.auth.action_tokens import ActionGrant, ActionTokens, Operation
from services.facade.clients.object_lookup import ObjectStat
from services.facade.objects.actions import ActionFactory
from services.facade.objects.batch import (
    Limits,
    check_entry,
    check_request,
    refusal,
    with_actions,
    with_error,
)
from services.facade.web import schemas
from services.facade.web.body_bounds import check_lengths
from services.facade.web.request_body import validate_body
from services.facade.web.schemas import BatchRequest, ObjectEntry

LIMITS = Limits(objects=3, object_bytes=1_000)
OID = "a" * 64
MAKER = ActionFactory(ActionTokens(SecretStr("k" * 32)), origin="http://h", seconds=60, now=1_795_000_000)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def _request(operation: str = "upload", **fields: Any) -> BatchRequest:  # noqa: ANN401 - whatever JSON a test sends
    return validate_body(BatchRequest, {"operation": operation, "objects": [], **fields})


def _fault(entry: dict[str, Any], **fields: Any) -> int | None:  # noqa: ANN401 - as above
    error = check_entry(validate_body(ObjectEntry, entry), _request(**fields), LIMITS)
    return error["code"] if error else None


def _answer(operation: Operation, stat: ObjectStat, size: int = 12) -> dict[str, Any]:
    grant = ActionGrant(operation, "demo/assets", 7, "", 0, "alice")
    transfers = MAKER.for_operation(grant)
    verifies = (
        MAKER.for_operation(grant._replace(operation=Operation.VERIFY)) if operation is Operation.UPLOAD else None
    )
    entry = ObjectEntry(oid=OID, size=size)
    error = refusal(entry, stat, operation)
    answer: dict[str, Any] = json.loads(
        with_error(entry, error) if error else with_actions(entry, stat, transfers, verifies)
    )
    return answer


@pytest.mark.parametrize(
    "transfers",
    [
        None,
        [],
        ["basic"],
        ["basic", "basic"],
        ["x", "basic"],
        *map(list, itertools.permutations(["basic", "ssh", "lfs-standalone-file"])),
    ],
)
def test_basic_is_chosen_wherever_it_stands(transfers: list[str] | None) -> None:
    """Absent, null and empty mean basic (client-12)."""
    check_request(_request(transfers=transfers))


@pytest.mark.parametrize("transfers", [["tus", "ssh"], ["tus"], ["BASIC"], ["basic "], [""]])
def test_no_transfer_in_common_is_refused(transfers: list[str]) -> None:
    """The answer's transfer must be one of the request's (protocol: "Batch")."""
    with pytest.raises(InvalidArgument, match="transfers"):
        check_request(_request(transfers=transfers))


def test_too_many_objects_are_refused() -> None:
    """One more than the limit (protocol: "Limits")."""
    check_lengths({"objects": [{}] * 3, "transfers": ["basic"] * 64}, max_objects=3)
    with pytest.raises(ResourceExhausted, match="objects"):
        check_lengths({"objects": [5] * 4}, max_objects=3)


@pytest.mark.parametrize(
    "oid",
    [
        "",
        "a" * 63,
        "a" * 65,
        "A" * 64,
        "g" * 64,
        " " + "a" * 63,
        OID + "\n",
        "a" * 63 + "\u0660",
        "sha256:" + OID,
        "../../etc/passwd",
        "../" * 21 + "a",
        "a/b",
        "a" * 63 + "/",
        "a" * 63 + "\0",
        "x" * 10_240,
        5,
        None,
        True,
        [1],
        {"a": 1},
    ],
)
@pytest.mark.parametrize("operation", ["download", "upload"])
def test_a_bad_oid_is_that_objects_422(oid: object, operation: str) -> None:
    """A bad oid fails its own object with 422 and never becomes a path (trap-28)."""
    assert _fault({"oid": oid, "size": 1}, operation=operation) == 422


@pytest.mark.parametrize("operation", ["download", "upload"])
def test_a_missing_oid_or_size_is_that_objects_422(operation: str) -> None:
    """An entry that lacks its oid or size fails alone."""
    for entry in ({}, {"size": 1}, {"oid": OID}):
        assert _fault(entry, operation=operation) == 422


@pytest.mark.parametrize(
    "size", [-1, -125, -(2**63), 2**63, 10**30, 10**400, 1.5, 5.0, 1e30, "5", True, None, {}, []], ids=range(14)
)
@pytest.mark.parametrize("operation", ["download", "upload"])
def test_a_bad_size_is_that_objects_422(size: object, operation: str) -> None:
    """A size that is no integer from 0 to 2**63 - 1 fails its own object with 422."""
    assert _fault({"oid": OID, "size": size}, operation=operation) == 422


def test_sizes_up_to_63_bits_are_sizes() -> None:
    """No 32-bit size anywhere (trap-7); the limit counts for uploads alone."""
    for size in (1, 2**31, 2**32, 2**53 + 1, 2**63 - 1):
        assert _fault({"oid": OID, "size": size}, operation="download") is None
    assert _fault({"oid": OID, "size": 1_000}) is None
    assert _fault({"oid": OID, "size": 1_001}) == 422
    assert _fault({"oid": OID, "size": 0}) is None


@pytest.mark.parametrize("algorithm", ["sha512", "sha1", "SHA256", "", 5, [], ["sha256"], False])
def test_another_hash_algorithm_is_each_objects_409(algorithm: object) -> None:
    """Another hash algorithm has other oids, so its 409 does not depend on the form of the oid (trap-32)."""
    assert _fault({"oid": OID, "size": 1}, hash_algo=algorithm) == 409
    assert _fault({"oid": "x", "size": 1}, hash_algo=algorithm) == 409


@pytest.mark.parametrize("algorithm", [None, "sha256"])
def test_the_default_hash_algorithm_may_be_named(algorithm: str | None) -> None:
    """Absent and null mean sha256."""
    assert _fault({"oid": OID, "size": 1}, hash_algo=algorithm) is None


@given(JSON, JSON, JSON, st.sampled_from(["upload", "download"]))
def test_no_entry_is_too_strange(oid: object, size: object, algorithm: object, operation: str) -> None:
    """Each is valid or has a code of the protocol."""
    assert _fault({"oid": oid, "size": size}, hash_algo=algorithm, operation=operation) in (None, 409, 422)


def test_a_download_has_an_action_or_an_error() -> None:
    """Never neither: a client would take that for success (client-16)."""
    held = _answer(Operation.DOWNLOAD, ObjectStat(status=pb.OBJECT_STATUS_PRESENT, size=12))
    assert held["actions"].keys() == {"download"}
    assert held["authenticated"] is True
    missing = _answer(Operation.DOWNLOAD, ObjectStat(status=pb.OBJECT_STATUS_MISSING))
    assert "actions" not in missing
    assert missing["error"]["code"] == 404


def test_an_upload_has_both_actions_or_none() -> None:
    """No `actions` at all where the object is held."""
    missing = _answer(Operation.UPLOAD, ObjectStat(status=pb.OBJECT_STATUS_MISSING))
    assert missing["actions"].keys() == {"upload", "verify"}
    held = _answer(Operation.UPLOAD, ObjectStat(status=pb.OBJECT_STATUS_PRESENT, size=12))
    assert held == {"oid": OID, "size": 12, "authenticated": True}


@pytest.mark.parametrize("operation", [Operation.UPLOAD, Operation.DOWNLOAD])
def test_a_removed_object_is_410_with_the_reason(operation: Operation) -> None:
    """In batches of both operations."""
    answer = _answer(operation, ObjectStat(status=pb.OBJECT_STATUS_REMOVED, removal_reason="leaked"))
    assert answer["error"]["code"] == 410
    assert "leaked" in answer["error"]["message"]


@pytest.mark.parametrize("operation", [Operation.UPLOAD, Operation.DOWNLOAD])
def test_another_size_than_the_held_one_is_422(operation: Operation) -> None:
    """The entry echoes the size that was asked for (client-15)."""
    answer = _answer(operation, ObjectStat(status=pb.OBJECT_STATUS_PRESENT, size=11))
    assert (answer["error"]["code"], answer["size"]) == (422, 12)
    assert "actions" not in answer


@pytest.mark.parametrize("operation", [Operation.UPLOAD, Operation.DOWNLOAD])
def test_an_answer_is_what_the_interface_describes(operation: Operation) -> None:
    """The models of the OpenAPI document, field by field."""
    for status in (pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_MISSING, pb.OBJECT_STATUS_REMOVED):
        answer = _answer(operation, ObjectStat(status=status, size=12))
        assert schemas.ObjectAnswer.model_validate(answer).model_dump(exclude_none=True) == answer
