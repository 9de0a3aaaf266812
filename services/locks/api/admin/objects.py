"""AdminService: objects and usage, requested from the storage service by repository id."""

from collections.abc import Sequence
from functools import partial

from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2 as storage

from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.audit_messages import object_fields
from services.locks.api.hook_messages import removed_object_payload
from services.locks.audit.event_types import (
    OBJECT_COPIED,
    OBJECT_PURGED,
    OBJECT_REMOVED,
    OBJECT_RESTORED,
)
from services.locks.models import Repository, User
from services.locks.repositories import count_locks, list_repositories, names_of
from services.locks.webhooks import event_types
from services.locks.webhooks.deliveries import record_event


class ObjectHandlers(Handlers):
    """Lists, removes and restores objects, and reports usage."""

    @administrator_only
    async def ListRepositoryObjects(
        self, request: pb.ListRepositoryObjectsRequest, _administrator: User
    ) -> pb.ListRepositoryObjectsResponse:
        """Return a page of a repository's objects."""
        repository = await self.find_repository(request.repository)
        page = await self.storage.call(
            self.storage.objects.ListObjects,
            storage.ListObjectsRequest(
                repository_id=repository.id,
                cursor=request.cursor,
                limit=request.limit,
                order=request.order,
                state=request.state,
            ),
        )
        return pb.ListRepositoryObjectsResponse(objects=page.objects, next_cursor=page.next_cursor)

    @administrator_only
    async def RemoveObject(self, request: pb.RemoveObjectRequest, administrator: User) -> pb.RemoveObjectResponse:
        """Remove an object and leave a tombstone."""
        repository = await self.find_repository(request.repository)
        removed = await self.storage.call(
            self.storage.objects.DeleteObject,
            storage.DeleteObjectRequest(
                repository_id=repository.id, oid=request.oid, reason=request.reason, removed_by=administrator.name
            ),
        )
        await self.database.run(
            partial(
                record_event,
                event_type=event_types.OBJECT_REMOVED,
                repository_id=repository.id,
                payload=removed_object_payload(repository, removed.object),
            )
        )
        await self.audit(
            OBJECT_REMOVED,
            subject=f"object {request.oid}",
            repository=repository.name,
            after=object_fields(removed.object),
        )
        return pb.RemoveObjectResponse(object=removed.object)

    @administrator_only
    async def RestoreObject(self, request: pb.RestoreObjectRequest, _administrator: User) -> pb.RestoreObjectResponse:
        """Take an object out of the bin, or delete its tombstone."""
        repository = await self.find_repository(request.repository)
        restored = await self.storage.call(
            self.storage.objects.RestoreObject,
            storage.RestoreObjectRequest(
                repository_id=repository.id, oid=request.oid, bytes_required=request.bytes_required
            ),
        )
        held = restored.object if restored.HasField("object") else None
        await self.audit(
            OBJECT_RESTORED,
            subject=f"object {request.oid}",
            repository=repository.name,
            after=None if held is None else object_fields(held),
        )
        return pb.RestoreObjectResponse(object=held)

    @administrator_only
    async def PurgeObject(self, request: pb.PurgeObjectRequest, _administrator: User) -> pb.PurgeObjectResponse:
        """Take the bytes of a removed object out of the bin."""
        repository = await self.find_repository(request.repository)
        purged = await self.storage.call(
            self.storage.objects.PurgeObject, storage.PurgeObjectRequest(repository_id=repository.id, oid=request.oid)
        )
        await self.audit(
            OBJECT_PURGED,
            subject=f"object {request.oid}",
            repository=repository.name,
            after=object_fields(purged.object),
        )
        names = await self.database.run(partial(names_of, repository_ids=purged.repository_ids))
        return pb.PurgeObjectResponse(object=purged.object, repositories=names)

    @administrator_only
    async def CopyObjects(self, request: pb.CopyObjectsRequest, _administrator: User) -> pb.CopyObjectsResponse:
        """Let a repository hold objects of another one too; the audit log has one event for each call."""
        source = await self.find_repository(request.repository)
        target = await self.find_writable(request.to_repository, field="to_repository")
        copied = await self.storage.call(
            self.storage.objects.CopyObjects,
            storage.CopyObjectsRequest(repository_id=source.id, to_repository_id=target.id, oids=request.oids),
        )
        if copied.copied_oids:
            await self.audit(
                OBJECT_COPIED,
                subject=f"objects of {source.name}",
                repository=target.name,
                after={"from": source.name, "oids": list(copied.copied_oids)},
            )
        return pb.CopyObjectsResponse(
            copied_oids=copied.copied_oids, missing_oids=copied.missing_oids, removed_oids=copied.removed_oids
        )

    @administrator_only
    async def ListUsage(self, request: pb.ListUsageRequest, _administrator: User) -> pb.ListUsageResponse:
        """Return the objects and locks of the repositories, their traffic today, and the space that is left."""
        repositories: Sequence[Repository]
        if request.repository:
            repositories = [await self.find_repository(request.repository)]
        else:
            repositories = await self.database.run(partial(list_repositories, with_bin=True))
        ids = [repository.id for repository in repositories]
        locks = await self.database.run(partial(count_locks, repository_ids=ids))
        wanted = storage.GetUsageRequest(repository_ids=ids, largest=request.largest, days=request.days)
        usage = await self.storage.call(self.storage.objects.GetUsage, wanted)
        return pb.ListUsageResponse(
            usage=(
                pb.ListUsageResponse.Usage(repository=repository.name, usage=used, locks=locks.get(repository.id, 0))
                for repository, used in zip(repositories, usage.repositories, strict=True)
            ),
            available_bytes=usage.available_bytes if usage.HasField("available_bytes") else None,
        )
