"""Printed fields of AdminService's messages. They are the fields of the JSON output, and do not change."""

from datetime import UTC
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1.lock_service_pb2 import Lock
from towpath.storage.v1.storage_service_pb2 import Object
from towpath.storage.v1.store_service_pb2 import Store

from services.cli.options import format_seconds
from services.common.request_rate import format_request_rate
from services.common.store_urls import without_credentials

ROLES = {"read": admin.ROLE_READ, "write": admin.ROLE_WRITE, "admin": admin.ROLE_ADMIN}
FORCED_UNLOCK = {"writers": admin.FORCED_UNLOCK_WRITERS, "admins": admin.FORCED_UNLOCK_ADMINS}
HOOK_FORMATS = {
    "json": admin.HOOK_FORMAT_JSON,
    "slack": admin.HOOK_FORMAT_SLACK,
    "discord": admin.HOOK_FORMAT_DISCORD,
}
FORGE_KINDS = {
    "github": admin.FORGE_KIND_GITHUB,
    "gitlab": admin.FORGE_KIND_GITLAB,
    "gitea": admin.FORGE_KIND_GITEA,
    "forgejo": admin.FORGE_KIND_FORGEJO,
}

_HOOK_FORMAT_NAMES = {value: name for name, value in HOOK_FORMATS.items()}
_FORGE_KIND_NAMES = {value: name for name, value in FORGE_KINDS.items()}
_ROLE_NAMES = {value: name for name, value in ROLES.items()}
_FORCED_UNLOCK_NAMES = {value: name for name, value in FORCED_UNLOCK.items()}


def moment(timestamp: Timestamp) -> str:
    """Return a time as text, such as 2026-11-21T10:00:00Z."""
    return timestamp.ToDatetime(tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def user_record(user: admin.User) -> dict[str, Any]:
    """Return the printed fields of a user.

    `origin` is absent if an administrator has added the user, and `rate` if the user has no own limit of requests.
    """
    return {
        "id": user.id,
        "name": user.name,
        "administrator": user.administrator,
        "created_at": moment(user.created_at),
        **({"origin": user.origin} if user.origin else {}),
        **_rate(user),
    }


def group_record(group: admin.Group) -> dict[str, Any]:
    """Return the printed fields of a group; `rate` is absent if it gives its members no limit of requests."""
    return {
        "id": group.id,
        "name": group.name,
        "members": group.member_count,
        "created_at": moment(group.created_at),
        **_rate(group),
    }


def _rate(limited: admin.User | admin.Group | admin.Token) -> dict[str, str]:
    return {"rate": format_request_rate(limited.requests_per_hour)} if limited.HasField("requests_per_hour") else {}


def token_record(token: admin.Token) -> dict[str, Any]:
    """Return the printed fields of a token.

    `expires_at` is absent if the token never expires, `last_used_at` if no use is known, `issuer` if its user got it
    without signing in anywhere, and `rate` if it has no limit of requests.
    """
    record = {
        "id": token.id,
        "user": token.user_name,
        "name": token.name,
        "created_at": moment(token.created_at),
    }
    if token.HasField("expires_at"):
        record["expires_at"] = moment(token.expires_at)
    if token.HasField("last_used_at"):
        record["last_used_at"] = moment(token.last_used_at)
    if token.issuer:
        record["issuer"] = token.issuer
    return record | _rate(token)


def repository_record(repository: admin.Repository) -> dict[str, Any]:
    """Return the printed fields of a repository; what it lacks is absent: rules for locks, a forge, its archiving."""
    record: dict[str, Any] = {
        "id": repository.id,
        "name": repository.name,
        "public": repository.public,
        "forced_unlock": _FORCED_UNLOCK_NAMES[repository.forced_unlock],
        "created_at": moment(repository.created_at),
    }
    if repository.stale_after_seconds:
        record["stale_after"] = format_seconds(repository.stale_after_seconds)
    if repository.history_seconds:
        record["keep_history"] = format_seconds(repository.history_seconds)
    if repository.release_on:
        record["release_on"] = list(repository.release_on)
    if repository.lock_spaces:
        record["lock_spaces"] = list(repository.lock_spaces)
    if repository.forge:
        record |= {
            "forge": repository.forge,
            "forge_repository": repository.forge_repository,
            "restricted": repository.restricted,
        }
    for name in ("archived_at", "removed_at", "bin_until"):
        if repository.HasField(name):
            record[name] = moment(getattr(repository, name))
    return record


def forge_record(forge: admin.Forge) -> dict[str, Any]:
    """Return the printed fields of a forge."""
    return {
        "id": forge.id,
        "name": forge.name,
        "kind": _FORGE_KIND_NAMES[forge.kind],
        "api_url": forge.api_url,
        "repositories": list(forge.repositories),
        "creates_on_use": forge.creates_on_use,
        "created_at": moment(forge.created_at),
    }


def grant_record(grant: admin.Grant) -> dict[str, Any]:
    """Return the printed fields of a grant: `ref_patterns` is empty if writing is not limited to certain refs.

    `user` is absent for a grant of a group, `group` for any other, and `ignores_locks` if it is false.
    """
    parties = (("user", grant.user_name), ("group", grant.group_name))
    record: dict[str, Any] = {party: name for party, name in parties if name}
    record |= {
        "repository": grant.repository,
        "role": _ROLE_NAMES[grant.role],
        "ref_patterns": list(grant.ref_patterns),
        "created_at": moment(grant.created_at),
    }
    if grant.ignores_locks:
        record["ignores_locks"] = True
    return record


def lock_record(lock: Lock) -> dict[str, Any]:
    """Return the printed fields of a lock; `note` and `space` are absent if they are empty."""
    record = {"id": lock.id, "path": lock.path, "locked_at": moment(lock.locked_at), "owner": lock.owner_name}
    if lock.note:
        record["note"] = lock.note
    if lock.space:
        record["space"] = lock.space
    return record


def released_lock_record(released: admin.ReleasedLock) -> dict[str, Any]:
    """Return the printed fields of a released lock; `stolen` and `reason` are absent if they are false and empty."""
    record = {
        **lock_record(released.lock),
        "released_at": moment(released.released_at),
        "released_by": released.released_by,
        "forced": released.forced,
    }
    if released.stolen:
        record["stolen"] = True
    if released.reason:
        record["reason"] = released.reason
    return record


def object_record(stored: Object) -> dict[str, Any]:
    """Return the printed fields of an object: those of its use, removal, bin and damage are there where they apply."""
    record = {"oid": stored.oid, "size": stored.size, "created_at": moment(stored.created_at)}
    if stored.HasField("used_at"):
        record["used_at"] = moment(stored.used_at)
    if stored.HasField("removed_at"):
        record |= {
            "removed_at": moment(stored.removed_at),
            "removal_reason": stored.removal_reason,
            "removed_by": stored.removed_by,
        }
    if stored.HasField("bin_until"):
        record["bin_until"] = moment(stored.bin_until)
    if stored.is_collected:
        record["is_collected"] = True
    if stored.is_damaged:
        record["is_damaged"] = True
    return record


def hook_record(hook: admin.Hook) -> dict[str, Any]:
    """Return the printed fields of a hook.

    `repository` is absent for a hook of all repositories; the fields of its disabling are absent while it is enabled.
    """
    record: dict[str, Any] = {"id": hook.id}
    if hook.repository:
        record["repository"] = hook.repository
    record |= {
        "url": hook.url,
        "events": list(hook.events),
        "format": _HOOK_FORMAT_NAMES[hook.format],
        "allow_private": hook.allow_private,
        "created_at": moment(hook.created_at),
    }
    if hook.HasField("disabled_at"):
        record |= {"disabled_at": moment(hook.disabled_at), "disabled_because": hook.disabled_because}
    return record


def delivery_record(delivery: admin.HookDelivery) -> dict[str, Any]:
    """Return the printed fields of a delivery: `state` is `delivered`, `pending` or `failed`, which is final."""
    record: dict[str, Any] = {
        "id": delivery.id,
        "message_id": delivery.message_id,
        "event": delivery.event_type,
        "repository": delivery.repository,
        "created_at": moment(delivery.created_at),
        "attempts": delivery.attempts,
    }
    if delivery.HasField("delivered_at"):
        record |= {"state": "delivered", "delivered_at": moment(delivery.delivered_at)}
    elif delivery.HasField("next_attempt_at"):
        record |= {"state": "pending", "next_attempt_at": moment(delivery.next_attempt_at)}
    else:
        record["state"] = "failed"
    if delivery.response_status:
        record["response_status"] = delivery.response_status
    if delivery.problem:
        record["problem"] = delivery.problem
    return record


def store_record(store: Store) -> dict[str, Any]:
    """Return the printed fields of a store.

    `url` is absent for the store of TOWPATH_STORAGE_URL, and `copy` for a store that is no copy.
    """
    record: dict[str, Any] = {"name": store.name}
    if store.url:
        record["url"] = without_credentials(store.url)
    record |= {
        "primary": store.is_primary,
        "object_count": store.object_count,
        "object_bytes": store.object_bytes,
        "lacking_count": store.lacking_count,
        "lacking_bytes": store.lacking_bytes,
        "created_at": moment(store.created_at),
    }
    if store.HasField("oldest_check_at"):
        record["oldest_check_at"] = moment(store.oldest_check_at)
    if store.HasField("copy"):
        record["copy"] = {
            "from": store.copy.from_store,
            "parallel": store.copy.parallel,
            "bytes_per_second": store.copy.bytes_per_second,
            "started_at": moment(store.copy.started_at),
            "problem": store.copy.problem,
        }
    return record
