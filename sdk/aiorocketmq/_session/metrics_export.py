"""Sends the metrics of hooks to the endpoint in the server's settings (client-behaviour.md, 14.2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from aiorocketmq._aio.tasks import Watch
from aiorocketmq._core.endpoint import parse_endpoint
from aiorocketmq._core.pauses import failure_pause
from aiorocketmq._core.settings import ServerSettings

if TYPE_CHECKING:
    from aiorocketmq._session.session import Session

logger = logging.getLogger("aiorocketmq.client")

PATH = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
PERIOD = 60.0
TIMEOUT = 5.0


class MetricsExport:
    """Exports while the current settings enable it; connection, TLS and signature are the client's own."""

    def __init__(
        self, session: Session, sources: Sequence[Callable[[str], bytes | None]], *, period: float = PERIOD
    ) -> None:
        self._session = session
        self._sources = sources
        self._period = period
        self._target: str | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, settings: ServerSettings) -> None:
        """Start, stop or redirect the export according to new settings; no effect if they are unchanged."""
        if settings.metrics_endpoint == self._target:
            return
        self._target = settings.metrics_endpoint
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._target is not None:
            self._task = self._session.supervise(self._run, self._target, name="exporting metrics")

    async def _run(self, watch: Watch, target: str) -> None:
        logger.info("exporting metrics to %s", target, extra=self._session.log_fields())
        rng = self._session.environment.random
        while True:
            pause = self._period
            try:
                endpoint = self._session.network.mapped(parse_endpoint(target))
                for source in self._sources:
                    payload = self._read(source)
                    if payload is not None:
                        headers, _ = self._session.next_headers()
                        await self._session.transport.unary(endpoint, PATH, payload, headers, TIMEOUT)
            except Exception as error:  # of an address map or the collector: none may stop the client
                pause = failure_pause(watch.failed(error), throttled=False, rng=rng)
            else:
                watch.worked()
            await asyncio.sleep(pause)

    def _read(self, source: Callable[[str], bytes | None]) -> bytes | None:
        try:
            return source(self._session.client_id)
        except Exception:  # of a hook
            logger.exception("the metrics of a hook are left out", extra=self._session.log_fields())
            return None
