"""Schedule of the probes of the primary, and their effect on direct transfer."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress

import httpx

from services.common.observability.logs import get_logger
from services.storage.backends.signing import Signer
from services.storage.context import StorageContext
from services.storage.direct.probe import Unsuitable, probe_downloads, probe_uploads
from services.storage.stores.registry import Store
from services.storage.stores.transfer_modes import Directions, configured_directions

_INTERVAL_SECONDS = 3600.0
_UNTIL_PASSED_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
_ROUND_SECONDS = 120.0

_log = get_logger(__name__)


class Prober:
    """Probes the primary at start, every minute until it has passed, and then every hour. Its owner runs `run`."""

    def __init__(self, context: StorageContext, setting: str) -> None:
        self._context = context
        self._setting = setting
        self._said: dict[tuple[int, str], str] = {}

    async def run(self) -> None:
        """Probe, forever; only directions that have passed are direct."""
        while True:
            store = self._context.stores.primary
            directions = self._wanted(store)
            pause = _INTERVAL_SECONDS
            if store.backend.signing is not None and directions != Directions():
                await self._probe(store, store.backend.signing.inside, directions)
                pause = _INTERVAL_SECONDS if store.direct == directions else _UNTIL_PASSED_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._context.stores.next_primary(store)

    def _wanted(self, store: Store) -> Directions:
        try:
            return configured_directions(self._setting, store.backend.signing)
        except ValueError as error:
            # The setting was possible with the store that was the primary at start.
            self._say(store, "both", str(error))
            return Directions()

    async def _probe(self, store: Store, signer: Signer, directions: Directions) -> None:
        # In a thread because it reads the certificates of authorities from files.
        tls = await asyncio.to_thread(httpx.create_ssl_context)
        direct = store.direct
        async with httpx.AsyncClient(timeout=_ANSWER_SECONDS, verify=tls) as http:
            if directions.downloads:
                passed = await self._outcome(store, "downloads", probe_downloads(self._context, store, signer, http))
                direct.downloads = direct.downloads if passed is None else passed
            if directions.uploads:
                passed = await self._outcome(store, "uploads", probe_uploads(self._context, store, signer, http))
                direct.uploads = direct.uploads if passed is None else passed

    async def _outcome(self, store: Store, what: str, probe: Coroutine[object, object, None]) -> bool | None:
        """Return whether the store has passed; None if the probe could not find out."""
        try:
            async with asyncio.timeout(_ROUND_SECONDS):
                await probe
        except Unsuitable as error:
            self._say(store, what, f"the store is unsuitable: {error}")
            return False
        except Exception as error:  # whatever failed, the next round may find out
            # The error's text may contain a signed URL.
            self._say(store, what, f"the store could not be probed: {type(error).__name__}")
            return None
        if self._said.pop((store.id, what), "") or not getattr(store.direct, what):
            _log.info("bytes go directly between clients and the store", direction=what)
        return True

    def _say(self, store: Store, what: str, why: str) -> None:
        if self._said.get((store.id, what)) != why:
            _log.warning("bytes are relayed", direction=what, why=why)
            self._said[store.id, what] = why
