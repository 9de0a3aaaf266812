"""The issuers at which people sign in."""

from towpath.access.v1 import access_service_pb2

from services.facade.clients.services import ServiceClients
from services.facade.web.sign_in_schemas import SignIn, SignIns


async def list_sign_ins(clients: ServiceClients) -> SignIns:
    """Return the issuers at which people sign in, by name."""
    reply = await clients.locks.call(clients.access_stub.ListSignIns, access_service_pb2.ListSignInsRequest())
    return SignIns(
        issuers=[
            SignIn(
                name=found.name,
                issuer=found.issuer,
                client_id=found.client_id,
                client_secret=found.client_secret or None,
            )
            for found in reply.sign_ins
        ]
    )
