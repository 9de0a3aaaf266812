"""Defects of servers that people run, planted one at a time by a `SpoilingProxy`, and the cases that find each."""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tests.support.spoiling_proxy import Asked, Forward, Given, Spoil


@dataclass(frozen=True)
class Defect:
    """A defect: its name, a function that makes a new one, and the ids of exactly the cases that fail with it."""

    name: str
    plant: Callable[[], Spoil]
    found_by: frozenset[str]
    blocks: bool = False
    """If set, other cases cannot even begin."""


def _after(is_spoiled: Callable[[Asked], bool], change: Callable[[Asked, Given], Given]) -> Callable[[], Spoil]:
    """Return a defect that changes the answers to some requests."""

    async def spoil(asked: Asked, forward: Forward) -> Given:
        given = await forward(asked)
        return change(asked, given) if is_spoiled(asked) else given

    return lambda: spoil


def _before(is_spoiled: Callable[[Asked], bool], change: Callable[[Asked], Asked]) -> Callable[[], Spoil]:
    """Return a defect that does another request than some that are sent."""

    async def spoil(asked: Asked, forward: Forward) -> Given:
        return await forward(change(asked) if is_spoiled(asked) else asked)

    return lambda: spoil


def _batch(
    change: Callable[[Asked, dict[str, Any]], dict[str, Any] | None], operation: str = ""
) -> Callable[[], Spoil]:
    """Return a defect that changes, or leaves out, each entry of the answers to batches."""

    def changed(asked: Asked, given: Given) -> Given:
        body = given.json
        if given.status != 200:
            return given
        entries = [change(asked, entry) for entry in body["objects"]]
        return given.with_json({**body, "objects": [entry for entry in entries if entry is not None]})

    return _after(lambda asked: asked.is_batch(operation), changed)


def _actions(change: Callable[[Asked, dict[str, Any]], dict[str, Any] | None]) -> Callable[[], Spoil]:
    """Return a defect that changes each action of the answers to batches."""

    def changed(asked: Asked, entry: dict[str, Any]) -> dict[str, Any]:
        if "actions" not in entry:
            return entry
        return {**entry, "actions": {name: change(asked, action) for name, action in entry["actions"].items()}}

    return _batch(changed)


def _every_lock(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[], Spoil]:
    """Return a defect that changes every lock in every answer."""

    def changed(_: Asked, given: Given) -> Given:
        body = given.json
        if "lock" in body:
            body = {**body, "lock": change(body["lock"])}
        for name in ("locks", "ours", "theirs"):
            if name in body:
                body = {**body, name: [change(lock) for lock in body[name]]}
        return given.with_json(body) if given.body else given

    return _after(lambda asked: "/locks" in asked.path, changed)


def _action(asked: Asked, oid: str) -> dict[str, Any]:
    return {"href": f"http://{asked.headers['host']}{asked.path.removesuffix('batch')}{oid}", "expires_in": 600}


def _accepting(is_accepted: Callable[[bytes, int], bool]) -> Callable[[], Spoil]:
    """Return a defect that stores refused bytes, and serves them ever after. It learns the sizes from the batches."""

    def plant() -> Spoil:
        stored: dict[str, bytes] = {}
        sizes: dict[str, int] = {}

        async def spoil(asked: Asked, forward: Forward) -> Given:
            if asked.is_batch("upload"):
                sizes.update({entry["oid"]: entry["size"] for entry in asked.entries})
            if asked.method == "GET" and asked.oid in stored:
                return Given(200, {"content-type": "application/octet-stream"}, stored[asked.oid])
            given = await forward(asked)
            if asked.method == "PUT" and given.status == 400 and is_accepted(asked.body, sizes[asked.oid]):
                stored[asked.oid] = asked.body
                return Given(200)
            if asked.is_batch("download") and given.status == 200:
                body = given.json
                for entry in body["objects"]:
                    if entry.get("oid") in stored and entry.pop("error", None):
                        entry["actions"] = {"download": _action(asked, entry["oid"])}
                return given.with_json(body)
            return given

        return spoil

    return plant


def _not_exclusive(_: Asked, given: Given) -> Given:
    if given.status != 409:
        return given
    return given.with_json({"lock": {**given.json["lock"], "id": secrets.token_hex(8)}}, 201)


def _one_for_all(status: int) -> Callable[[Asked, Given], Given]:
    """Return a change that answers a whole batch by the error of one of its objects."""

    def changed(_: Asked, given: Given) -> Given:
        errors = [entry["error"] for entry in given.json.get("objects", []) if "error" in entry]
        return given.with_json({"message": errors[0]["message"]}, status) if errors else given

    return changed


def _any_oid(asked: Asked, given: Given) -> Given:
    if not any("/" in str(entry.get("oid")) for entry in asked.entries):
        return given
    answered = [{**entry, "actions": {"upload": _action(asked, entry["oid"])}} for entry in asked.entries]
    return given.with_json({"objects": answered}, 200)


def _without(*names: str) -> Callable[[Asked], Asked]:
    """Return a change that takes members out of the body and the query of a request."""

    def changed(asked: Asked) -> Asked:
        query = {name: value for name, value in asked.query.items() if name not in names}
        body = asked.json
        kept = {name: value for name, value in body.items() if name not in names}
        return replace(asked.with_json(kept) if body else asked, query=query)

    return changed


def _cut_page(_: Asked, given: Given) -> Given:
    body = given.json
    return given.with_json({**body, "locks": body["locks"][:-1]}) if "next_cursor" in body else given


def _with_body(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Asked, Given], Given]:
    return lambda _, given: given.with_json(change(given.json))


def _only_error(entry: dict[str, Any], code: int) -> bool:
    return bool(entry.get("error", {}).get("code") == code)


def _status(old: int, new: int) -> Callable[[Asked, Given], Given]:
    return lambda _, given: replace(given, status=new) if given.status == old else given


def _without_headers(given: Given, names: Iterable[str]) -> Given:
    return replace(given, headers={name: value for name, value in given.headers.items() if name not in names})


def _refusing_null(asked: Asked, given: Given) -> Given:
    is_null = "ref" in asked.json and asked.json["ref"] is None
    return given.with_json({"message": "ref: expected an object"}, 422) if is_null else given


def _rest_of_range(asked: Asked) -> Asked:
    first = asked.headers["range"].partition("-")[0]
    return replace(asked, headers={**asked.headers, "range": f"{first}-"})


DEFECTS = (
    Defect(
        "a new lock is 200", _after(Asked.is_lock, _status(201, 200)), frozenset({"lock_create/a_free_path_is_locked"})
    ),
    Defect(
        "batches are application/json",
        _after(
            lambda asked: asked.is_batch(),
            lambda _, given: (
                replace(given, headers={**given.headers, "content-type": "application/json"})
                if given.status == 200
                else given
            ),
        ),
        frozenset({"dialects/batches_have_the_media_type"}),
    ),
    Defect(
        "a refused batch is plain text",
        _after(
            lambda asked: asked.is_batch(),
            lambda _, given: (
                Given(400, {"content-type": "text/plain"}, b"Bad Request\n") if given.status == 400 else given
            ),
        ),
        frozenset(
            {
                "errors/a_refused_batch_has_a_message",
                "errors/a_refused_batch_has_no_objects",
                "errors/a_refused_batch_has_the_media_type",
                "errors/a_request_id_is_a_string",
                "errors/every_error_has_a_request_id_of_its_own",
            }
        ),
    ),
    Defect(
        "bad JSON is 500",
        _after(lambda asked: asked.is_batch(), _status(400, 500)),
        frozenset({"batch_request/a_body_that_is_not_json_is_refused"}),
    ),
    Defect(
        "the last lock of a page is lost",
        _after(Asked.is_list, _cut_page),
        frozenset({"lock_list/pages_follow_each_other"}),
    ),
    Defect(
        "no locks are null",
        _after(Asked.is_list, _with_body(lambda body: {**body, "locks": body.get("locks") or None})),
        frozenset({"lock_list/a_path_without_a_lock_is_an_empty_list"}),
    ),
    Defect(
        "nobody's locks are null",
        _after(
            Asked.is_verification,
            lambda _, given: (
                given.with_json({**given.json, "theirs": given.json["theirs"] or None})
                if given.status == 200
                else given
            ),
        ),
        frozenset({"lock_verify/both_lists_are_there"}),
    ),
    Defect(
        "a path without a lock is 404",
        _after(
            Asked.is_list,
            lambda asked, given: (
                given.with_json({"message": "no such lock"}, 404)
                if "path" in asked.query and given.json.get("locks") == []
                else given
            ),
        ),
        frozenset({"lock_list/a_path_without_a_lock_is_an_empty_list", "lock_list/two_filters_are_both_kept"}),
    ),
    Defect(
        "the removed lock is bare",
        _after(Asked.is_unlock, _with_body(lambda body: body.get("lock", body))),
        frozenset({"lock_delete/force_removes_the_lock_of_another", "lock_delete/the_removed_lock_comes_back"}),
    ),
    Defect(
        "wrong sizes are stored",
        _accepting(lambda body, size: len(body) != size),
        frozenset(
            {"upload/an_object_of_a_wrong_size_is_never_served", "upload/bytes_of_another_size_are_never_served"}
        ),
    ),
    Defect(
        "wrong bytes are stored",
        _accepting(lambda body, size: len(body) == size),
        frozenset(
            {
                "upload/a_refused_upload_is_no_422",
                "upload/wrong_bytes_are_never_served",
                "upload/wrong_bytes_never_replace_right_ones",
            }
        ),
    ),
    Defect(
        "a range is the rest",
        _before(lambda asked: "range" in asked.headers, _rest_of_range),
        frozenset({"download/a_range_is_exactly_those_bytes"}),
    ),
    Defect(
        "locks are not exclusive",
        _after(Asked.is_lock, _not_exclusive),
        frozenset(
            {
                "lock_create/a_conflict_has_a_message",
                "lock_create/a_conflict_has_the_standing_lock",
                "lock_create/a_lock_is_of_a_path_whatever_the_ref",
                "lock_create/a_locked_path_is_409",
                "lock_create/another_user_gets_409",
                "lock_create/of_several_creators_exactly_one_gets_the_lock",
            }
        ),
    ),
    Defect(
        "ours are theirs",
        _after(
            Asked.is_verification,
            lambda _, given: (
                given.with_json({**given.json, "ours": given.json["theirs"], "theirs": given.json["ours"]})
                if given.status == 200
                else given
            ),
        ),
        frozenset({"lock_verify/locks_of_others_are_theirs", "lock_verify/own_locks_are_ours"}),
    ),
    Defect(
        "an unknown object is verified",
        _after(lambda asked: asked.method == "POST" and bool(asked.oid), lambda *_: Given(200)),
        frozenset(
            {"verify/an_object_of_another_size_is_not_verified", "verify/an_object_that_is_not_stored_is_not_verified"}
        ),
    ),
    Defect(
        "a bad object fails the batch",
        _after(lambda asked: asked.is_batch("upload"), _one_for_all(422)),
        frozenset({"batch_upload/one_bad_object_fails_alone"}),
    ),
    Defect(
        "an unknown object fails the batch",
        _after(lambda asked: asked.is_batch("download"), _one_for_all(404)),
        frozenset(
            {
                "batch_download/an_error_is_a_code_and_a_message",
                "batch_download/an_unknown_object_has_an_error",
                "batch_download/objects_fail_one_by_one",
                "batch_download/the_error_of_an_unknown_object_is_404",
            }
        ),
    ),
    Defect(
        "a 401 has no challenge",
        _after(
            lambda _: True,
            lambda _, given: _without_headers(given, ("lfs-authenticate", "blob-authenticate", "www-authenticate")),
        ),
        frozenset({"authentication/a_401_has_the_challenge"}),
    ),
    Defect(
        "any hash algorithm is accepted",
        _before(lambda asked: asked.is_batch(), _without("hash_algo")),
        frozenset({"batch_request/another_hash_algorithm_is_refused"}),
    ),
    Defect(
        "a held object has actions",
        _batch(
            lambda asked, entry: (
                entry
                if "actions" in entry or "error" in entry
                else {**entry, "actions": {"upload": _action(asked, entry["oid"])}}
            ),
            "upload",
        ),
        frozenset({"batch_upload/a_held_object_has_no_actions"}),
    ),
    Defect(
        "the cursor is ignored",
        _before(Asked.is_list, _without("cursor")),
        frozenset({"lock_list/pages_follow_each_other"}),
    ),
    Defect("the limit is ignored", _before(Asked.is_list, _without("limit")), frozenset({"lock_list/a_limit_is_kept"})),
    Defect(
        "the cursor in a body is ignored",
        _before(Asked.is_verification, _without("cursor")),
        frozenset({"lock_verify/pages_follow_each_other"}),
    ),
    Defect(
        "locked_at has a blank",
        _every_lock(lambda lock: {**lock, "locked_at": lock["locked_at"].replace("T", " ").replace("Z", "")}),
        frozenset({"lock_create/locked_at_is_a_timestamp"}),
    ),
    Defect(
        "locks have no owner",
        _every_lock(lambda lock: {name: value for name, value in lock.items() if name != "owner"}),
        frozenset(
            {
                "lock_create/a_lock_names_its_owner",
                "lock_create/the_owner_is_who_sent_the_credentials",
                "lock_verify/locks_name_their_owners",
            }
        ),
    ),
    Defect(
        "anybody removes a lock",
        _before(Asked.is_unlock, lambda asked: asked.with_json({**asked.json, "force": True})),
        frozenset({"lock_delete/a_refusal_names_the_owner", "lock_delete/the_lock_of_another_stands_without_force"}),
    ),
    Defect(
        "a refused unlock is 200",
        _after(
            Asked.is_unlock,
            lambda _, given: given.with_json({"lock": {"id": "0", "path": "x"}}, 200) if given.status == 403 else given,
        ),
        frozenset({"lock_delete/a_refusal_names_the_owner", "lock_delete/the_lock_of_another_stands_without_force"}),
    ),
    Defect(
        "actions expire in year 1",
        _actions(
            lambda _, action: {
                **{name: value for name, value in action.items() if name != "expires_in"},
                "expires_at": "0001-01-01T00:00:00Z",
            }
        ),
        frozenset({"actions/an_action_is_not_expired"}),
    ),
    Defect(
        "expires_in is in nanoseconds",
        _actions(lambda _, action: {**action, "expires_in": action["expires_in"] * 10**9}),
        frozenset({"actions/expires_in_is_an_integer"}),
    ),
    Defect(
        "a path is an oid",
        _after(lambda asked: asked.is_batch("upload"), _any_oid),
        frozenset({"batch_upload/an_oid_that_is_no_hash_is_refused"}),
    ),
    Defect(
        "the password comes back",
        _actions(
            lambda asked, action: {
                **action,
                "header": {**action["header"], "Authorization": asked.headers["authorization"]},
            }
        ),
        frozenset({"actions/the_password_never_comes_back"}),
    ),
    Defect(
        "the action verify is null",
        _batch(
            lambda _, entry: (
                {**entry, "actions": {**entry["actions"], "verify": None}} if "actions" in entry else entry
            ),
            "upload",
        ),
        frozenset({"batch_upload/no_action_is_null"}),
    ),
    Defect(
        "an unknown object has no entry",
        _batch(lambda _, entry: None if _only_error(entry, 404) else entry, "download"),
        frozenset(
            {
                "batch_download/an_error_is_a_code_and_a_message",
                "batch_download/an_unknown_object_has_an_error",
                "batch_download/objects_fail_one_by_one",
                "batch_download/the_error_of_an_unknown_object_is_404",
            }
        ),
    ),
    Defect(
        "the size comes back as 0",
        _batch(lambda _, entry: {**entry, "size": 0}),
        frozenset({"batch_download/oid_and_size_come_back", "batch_upload/oid_and_size_come_back"}),
    ),
    Defect(
        "a conflict has no lock",
        _after(
            Asked.is_lock,
            lambda _, given: given.with_json({"message": given.json["message"]}) if given.status == 409 else given,
        ),
        frozenset({"lock_create/a_conflict_has_the_standing_lock"}),
    ),
    Defect(
        "a ref of null is 422",
        _after(lambda _: True, _refusing_null),
        frozenset(
            {
                "batch_request/a_ref_of_null_is_no_ref",
                "lock_create/a_ref_of_null_is_no_ref",
                "lock_delete/every_member_may_be_null_or_missing",
                "lock_verify/every_member_may_be_null_or_missing",
            }
        ),
    ),
    Defect(
        "a success has a message",
        _after(
            lambda asked: asked.is_lock() or asked.is_unlock() or asked.is_verification(),
            lambda _, given: given.with_json({**given.json, "message": "done"}) if given.status < 300 else given,
        ),
        frozenset(
            {
                "lock_create/a_success_has_no_message",
                "lock_delete/a_success_has_no_message",
                "lock_verify/a_success_has_no_message",
            }
        ),
    ),
    Defect(
        "wrong bytes are 422",
        _after(lambda asked: asked.method == "PUT", _status(400, 422)),
        frozenset({"upload/a_refused_upload_is_no_422"}),
    ),
    Defect(
        "an href has no host",
        _actions(lambda _, action: {**action, "href": "/" + action["href"].split("/", 3)[3]}),
        frozenset({"actions/an_href_is_an_absolute_url"}),
        blocks=True,
    ),
)
"""Every defect; each name is that of one."""
