"""AccessService: sign-ins at issuers, and by SSH keys."""

from functools import partial

from towpath.access.v1 import access_service_pb2 as pb

from services.common.errors import Unauthenticated
from services.common.rpc.log_fields import add_log_fields
from services.locks.access.ssh_keys import issue_session_token, known_key
from services.locks.api.access_base import AccessHandlers, asker_of
from services.locks.issuers.code_flow import Returned, Started
from services.locks.issuers.table import list_sign_ins


class SignInHandlers(AccessHandlers):
    """Gives and ends the tokens of sign-ins."""

    async def ExchangeToken(self, request: pb.ExchangeTokenRequest, _context: object) -> pb.ExchangeTokenResponse:
        """Give a token of ours for a JSON Web Token."""
        try:
            given = await self.sign_in.exchange(request.token, asker_of(request))
        except Unauthenticated as error:
            self.refuse_credential(request.token, error)
            raise
        user = given.user.user
        add_log_fields(user=user.name)
        return pb.ExchangeTokenResponse(
            secret=given.secret, valid_seconds=given.valid_seconds, user_name=user.name, user_id=user.id
        )

    async def RevokeSignInToken(
        self, request: pb.RevokeSignInTokenRequest, _context: object
    ) -> pb.RevokeSignInTokenResponse:
        """End a token that was given for a JSON Web Token."""
        user = await self.sign_in.revoke(request.token)
        add_log_fields(user=user.name)
        return pb.RevokeSignInTokenResponse(user_name=user.name)

    async def ListSignIns(self, _request: pb.ListSignInsRequest, _context: object) -> pb.ListSignInsResponse:
        """Return the issuers at which people can sign in."""
        response = pb.ListSignInsResponse()
        for issuer in await self.database.run(list_sign_ins):
            response.sign_ins.add(
                name=issuer.name, issuer=issuer.url, client_id=issuer.client_id, client_secret=issuer.client_secret
            )
        return response

    async def StartSignIn(self, request: pb.StartSignInRequest, _context: object) -> pb.StartSignInResponse:
        """Return the URL at which a person signs in with a browser."""
        url = await self.code_flow.start(
            request.issuer,
            Started(
                redirect_uri=request.redirect_uri,
                state=request.state,
                nonce=request.nonce,
                code_challenge=request.code_challenge,
            ),
        )
        return pb.StartSignInResponse(authorization_url=url)

    async def FinishSignIn(self, request: pb.FinishSignInRequest, _context: object) -> pb.FinishSignInResponse:
        """Give a token of ours for the code of a sign-in."""
        returned = Returned(
            redirect_uri=request.redirect_uri,
            code=request.code,
            code_verifier=request.code_verifier,
            nonce=request.nonce,
            issuer_url=request.response_issuer,
        )
        try:
            given = await self.code_flow.finish(request.issuer, returned, asker_of(request))
        except Unauthenticated as error:
            self.refuse_credential(request.code, error)
            raise
        user = given.user.user
        add_log_fields(user=user.name)
        return pb.FinishSignInResponse(
            secret=given.secret, valid_seconds=given.valid_seconds, user_name=user.name, user_id=user.id
        )

    async def FindSshKey(self, request: pb.FindSshKeyRequest, _context: object) -> pb.FindSshKeyResponse:
        """Return the SSH key of a fingerprint."""
        found = await self.database.run(partial(known_key, fingerprint=request.fingerprint))
        return pb.FindSshKeyResponse(key_id=found.key.id, user_name=found.user_name, public_key=found.key.public_key)

    async def IssueSessionToken(
        self, request: pb.IssueSessionTokenRequest, _context: object
    ) -> pb.IssueSessionTokenResponse:
        """Make a token of a repository for a session that has proven an SSH key."""
        issue = partial(
            issue_session_token,
            fingerprint=request.fingerprint,
            repository=request.repository,
            may_write=request.may_write,
            valid_seconds=request.valid_seconds,
        )
        secret, found = await self.database.run(issue)
        add_log_fields(user=found.user_name)
        return pb.IssueSessionTokenResponse(token=secret, key_id=found.key.id, user_name=found.user_name)
