"""Retention of a real server with a short log, which deletes its older files on request."""

from __future__ import annotations

from aiorocketmq._core.endpoint import parse_endpoint
from aiorocketmq._remoting.codes import ResponseCode
from aiorocketmq._remoting.connection import RemotingConnection
from aiorocketmq.admin import Admin

from aiorocketmq_conformance.probe.clock import RealClock
from aiorocketmq_conformance.probe.remoting import RemotingProbe
from aiorocketmq_conformance.targets.apache.setups import LOG_FILE
from aiorocketmq_conformance.targets.remoting_admin import RemotingAdmin
from aiorocketmq_conformance.verdicts import Inconclusive

_DELETE_LOG, _DELETE_QUEUES = 329, 306
_FILES, _PART = 5, 64 << 10
"""Files to fill, since the newest two are kept, and bytes of each message in them."""
_FILLER = "cf-filler"


class RetentionAdmin(RemotingAdmin):
    """Creates topics and groups, and deletes messages."""

    def __init__(self, admin: Admin, name_server: str, broker: str) -> None:
        super().__init__(admin)
        self._name_server = name_server
        self._broker = broker

    async def expire_stored(self) -> None:
        """Fill more files of the log than are kept; Inconclusive if the server is too busy."""
        await self.create_topic(_FILLER, type="NORMAL", queues=1, permission="rw")
        probe = RemotingProbe(self._name_server, _FILLER, RealClock())
        try:
            left = _FILES * LOG_FILE // _PART
            for _ in range(2 * left):
                answer = await probe.send(_FILLER, bytes(_PART))
                left -= answer.code == ResponseCode.SUCCESS
                if not left:
                    return
            raise Inconclusive(f"the server refused every second message: {answer.remark}")
        finally:
            await probe.close()

    async def delete_expired(self) -> None:
        """Delete older files of the log."""
        await delete_older_files(self._broker)


async def delete_older_files(broker: str) -> None:
    """Let a broker delete the older files of a short log, which takes seconds, and is possible from a minute
    after its start on; UnreachableError if it does not answer."""
    (address,) = parse_endpoint(broker).addresses
    async with RemotingConnection(address) as connection:
        for code in (_DELETE_LOG, _DELETE_QUEUES):
            await connection.call(code, timeout=10.0)
