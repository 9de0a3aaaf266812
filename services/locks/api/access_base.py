"""Common base of the AccessService handlers, and what they share."""

from dataclasses import dataclass

from towpath.access.v1 import access_service_pb2 as pb
from towpath.access.v1.access_service_pb2_grpc import AccessServiceServicer

from services.common.errors import Reason, ServiceError, Unauthenticated
from services.common.rpc.log_fields import add_log_fields
from services.database.notifications import Notifications
from services.database.transactions import Database
from services.locks.access.refusals import Refusals, Refused
from services.locks.access.request_rates import RequestRates
from services.locks.access.third_parties import Asker
from services.locks.access.token_uses import TokenUses
from services.locks.access.tokens import TokenUser, token_hash
from services.locks.forges.authentication import ForgeAuthentication
from services.locks.issuers.code_flow import CodeFlow
from services.locks.issuers.sign_in import SignIn
from services.locks.storage_client import StorageClient

# For a credential that the facade has had checked a moment ago.
_NO_QUESTIONS = Asker(is_limited=True)


@dataclass(frozen=True, eq=False)
class AccessHandlers(AccessServiceServicer):
    """The base class of the handlers; the application that creates these resources closes them."""

    database: Database
    changes: Notifications
    uses: TokenUses
    refusals: Refusals
    sign_in: SignIn
    code_flow: CodeFlow
    forges: ForgeAuthentication
    storage: StorageClient
    rates: RequestRates

    async def owner(self, credential: str) -> TokenUser:
        """Return the user of a credential that was shown, also of one of a forge, which is not asked.

        Raises `Unauthenticated` (BAD_CREDENTIALS), and records the refusal.
        """
        try:
            found = await self.sign_in.find(credential, _NO_QUESTIONS)
        except Unauthenticated as error:
            self.refuse_credential(credential, error)
            raise
        if found is None:
            unknown = Unauthenticated(Reason.BAD_CREDENTIALS, "credential: expected that of the user")
            self.refuse_credential(credential, unknown)
            raise unknown
        add_log_fields(user=found.user.name)
        return found

    def refuse_credential(self, credential: str, error: ServiceError) -> None:
        """Record the refusal of a credential. Anybody can make a JSON Web Token that says that it has expired."""
        is_of_owner = bool(error.metadata.keys() & {"expired", "revoked"}) and "refused" not in error.metadata
        self.refusals.record(
            Refused(
                error.reason,
                error.message,
                error.message,
                "unknown",
                token_hash=token_hash(credential),
                is_of_owner=is_of_owner,
            )
        )


def asker_of(request: pb.AuthenticateRequest | pb.ExchangeTokenRequest | pb.FinishSignInRequest) -> Asker:
    """Return the client for which a third party would be asked."""
    return Asker(request.client_address, request.client_is_limited)
