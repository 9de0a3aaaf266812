"""When the store is probed, and what follows from it."""

import asyncio
from collections.abc import Coroutine

import httpx

from services.common.logs import get_logger
from services.storage.direct.probe import Unsuitable, probe_downloads, probe_uploads
from services.storage.direct.transfer import Directions
from services.storage.signing import Signing
from services.storage.store import Store

_INTERVAL_SECONDS = 3600.0
_UNTIL_PASSED_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
_ROUND_SECONDS = 120.0

_log = get_logger(__name__)


class Prober:
    """Probes at start, again until the store has passed, and then every hour. Its owner runs `run`."""

    def __init__(self, store: Store, signing: Signing, wanted: Directions) -> None:
        self._store = store
        self._signing = signing
        self._wanted = wanted
        self._said: dict[str, str] = {}

    async def run(self) -> None:
        """Probe, for ever; only what has passed is direct."""
        while self._wanted != Directions():
            await self._probe()
            passed = self._store.direct == self._wanted
            await asyncio.sleep(_INTERVAL_SECONDS if passed else _UNTIL_PASSED_SECONDS)

    async def _probe(self) -> None:
        direct, signer = self._store.direct, self._signing.inside
        # It reads the certificates of authorities.
        tls = await asyncio.to_thread(httpx.create_ssl_context)
        async with httpx.AsyncClient(timeout=_ANSWER_SECONDS, verify=tls) as http:
            if self._wanted.downloads:
                passed = await self._outcome("downloads", probe_downloads(self._store, signer, http))
                direct.downloads = direct.downloads if passed is None else passed
            if self._wanted.uploads:
                passed = await self._outcome("uploads", probe_uploads(self._store, signer, http))
                direct.uploads = direct.uploads if passed is None else passed

    async def _outcome(self, what: str, probe: Coroutine[object, object, None]) -> bool | None:
        """Return whether the store has passed; None where that could not be found out."""
        try:
            async with asyncio.timeout(_ROUND_SECONDS):
                await probe
        except Unsuitable as error:
            self._say(what, f"the store is unsuitable: {error}")
            return False
        except Exception as error:  # whatever it was, the next round may tell
            # Its text may hold a signed address.
            self._say(what, f"the store could not be probed: {type(error).__name__}")
            return None
        if self._said.pop(what, "") or not getattr(self._store.direct, what):
            _log.info("bytes go directly between clients and the store", direction=what)
        return True

    def _say(self, what: str, why: str) -> None:
        if self._said.get(what) != why:
            _log.warning("bytes are relayed", direction=what, why=why)
            self._said[what] = why
