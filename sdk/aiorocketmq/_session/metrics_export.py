"""Sends the metrics that hooks gather to where the server's settings ask for them (client-behaviour.md, 14.2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from aiorocketmq._aio.tasks import Watch
from aiorocketmq._core.endpoint import parse_endpoint
from aiorocketmq._core.pauses import failure_pause
from aiorocketmq._core.settings import ServerSettings
from aiorocketmq._session.standing import Standing

logger = logging.getLogger(__name__)

PATH = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
PERIOD = 60.0
TIMEOUT = 5.0


class MetricsExport:
    """Exports while the settings in force want it; the connection, its TLS and its signature are the client's own."""

    def __init__(
        self, session: Standing, sources: Sequence[Callable[[str], bytes | None]], *, period: float = PERIOD
    ) -> None:
        self._session = session
        self._sources = sources
        self._period = period
        self._target: str | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, settings: ServerSettings) -> None:
        """Begin, end, or go elsewhere, as new settings say; the same ones again leave the export alone."""
        if settings.metrics_endpoint == self._target:
            return
        self._target = settings.metrics_endpoint
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._target is not None:
            self._task = self._session.supervise(self._run, self._target, name="exporting metrics")

    async def _run(self, watch: Watch, target: str) -> None:
        logger.info("the server wants metrics at %s", target, extra=self._session.log_facts())
        rng = self._session.environment.random
        while True:
            pause = self._period
            try:
                endpoint = self._session.network.mapped(parse_endpoint(target))
                for source in self._sources:
                    payload = source(self._session.client_id)
                    if payload is not None:
                        headers, _ = self._session.next_headers()
                        await self._session.transport.unary(endpoint, PATH, payload, headers, TIMEOUT)
            except (
                Exception
            ) as error:  # of a hook, an address map or the way to the collector: none may end a client
                pause = failure_pause(watch.failed(error), throttled=False, rng=rng)
            else:
                watch.worked()
            await asyncio.sleep(pause)
