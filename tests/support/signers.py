"""A signer for what asks none."""

from collections.abc import Mapping, Sequence

from services.storage.backends.signing import SignedUrl, StoredFacts


class NoSigner:
    """See `services.storage.backends.signing.Signer`; it has nothing and signs nothing."""

    async def downloads(self, names: Sequence[str], seconds: int) -> list[SignedUrl]:
        """Refuse."""
        raise NotImplementedError

    async def uploads(self, contents: Sequence[tuple[str, int]], seconds: int) -> list[SignedUrl]:
        """Refuse."""
        raise NotImplementedError

    async def facts(self, name: str) -> StoredFacts | None:
        """Know nothing."""
        return None

    def copying_headers(self, name: str) -> Mapping[str, str]:
        """Copy nothing."""
        return {}
