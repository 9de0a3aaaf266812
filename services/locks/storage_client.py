"""Client of the storage service for administration. It sends the ids of repositories, never their names."""

from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1 import store_service_pb2 as stores
from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceStub
from towpath.storage.v1.store_service_pb2_grpc import StoreServiceStub

from services.common.rpc.client import ServiceClient
from services.common.rpc.options import ADMIN_METADATA_KEY
from services.common.rpc.tls import Tls

_DEADLINE_SECONDS = 30.0

_SERVICE: str = pb.DESCRIPTOR.services_by_name["StorageService"].full_name
_STORE_SERVICE: str = stores.DESCRIPTOR.services_by_name["StoreService"].full_name
COLLECT_GARBAGE = f"/{_SERVICE}/CollectGarbage"
WRITE_OBJECT = f"/{_SERVICE}/WriteObject"
"""The full names of the methods that take a stream."""

_REPEATABLE = {
    _SERVICE: [
        "BatchStatObjects",
        "WriteWholeObjects",
        "DeleteObject",
        "PurgeObject",
        "CopyObjects",
        "TakeCollectionTurn",
        "DeleteRepository",
        "ListObjects",
        "GetUsage",
        "SetLimits",
        "ListQuotaEvents",
        "AcknowledgeQuotaEvents",
        "GetUserUsage",
        "ListLimitedGroups",
        "SetLimitedGroupMembers",
    ],
    _STORE_SERVICE: ["CreateStore", "ListStores", "StartCopy", "StopCopy", "SetPrimaryStore", "DeleteStore"],
}


class StorageClient(ServiceClient):
    """A client of the storage service with the stubs of `objects` and `stores`, whose methods `call` takes."""

    def __init__(
        self, address: str, *, secret: SecretStr | None, admin_secret: SecretStr | None, tls: Tls | None
    ) -> None:
        super().__init__(
            address,
            deadline=_DEADLINE_SECONDS,
            secret=secret,
            further=(ADMIN_METADATA_KEY, admin_secret) if admin_secret else None,
            tls=tls,
            repeatable=_REPEATABLE,
        )
        self.objects = StorageServiceStub(self.channel)
        self.stores = StoreServiceStub(self.channel)
