"""Broadcast consumption: each member reads every queue, and keeps its progress in a file of its own.

Path and format are those of Java's clients, so that either goes on where the other has stopped
(live-broker-remoting.md, 7.2)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile

from aiorocketmq._core.remoting.bodies import offset_file, parse_offsets
from aiorocketmq._pull.interface import Wanted
from aiorocketmq._pull.remoting_calls import RemotingPullCalls
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq.errors import UsageError
from aiorocketmq.message import MessageQueue


class BroadcastPullCalls(RemotingPullCalls):
    """Pulls as everywhere; offsets from the member's own file, and no other members."""

    def __init__(self, session: RemotingSession, wanted: Wanted, file: OffsetFile) -> None:
        super().__init__(session, wanted)
        self._file = file
        self._wanted: dict[MessageQueue, int] = {}
        """What was committed here, written or still to be."""
        self._written: Mapping[MessageQueue, int] | None = None
        """What the file holds; None before it was read."""
        self._turn = asyncio.Lock()

    async def consumers(self, topic: str) -> tuple[str, ...]:
        """This member alone: it reads everything."""
        return (self._session.client_id,)

    async def committed(self, queue: MessageQueue) -> int | None:
        """What this member has committed of `queue`; UsageError where its file cannot be read."""
        async with self._turn:
            if self._written is None:
                self._written = await asyncio.to_thread(self._file.load)
        return self._written.get(queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Write the member's next offset; many commits at a time are one write. Raises UsageError where the file cannot
        be written."""
        self._wanted[queue] = offset
        async with self._turn:
            if self._written is None or self._written.get(queue) != offset:
                self._written = await asyncio.to_thread(self._file.save, dict(self._wanted))


class OffsetFile:
    """The offsets of one member, which survive a kill at any moment."""

    def __init__(self, directory: Path, member: str, group: str) -> None:
        """`member` names the folder of the member, which it keeps for good."""
        if not member or "/" in member or "\\" in member or member in (".", ".."):
            raise ValueError(f"member {member!r} must be a name that a folder can have")
        self._path = directory / member / group / "offsets.json"

    def load(self) -> dict[MessageQueue, int]:
        """The offsets as they were last written; none where there is no file. Blocks.

        A damaged file is replaced by the one before, `.bak`; where that is damaged, too, a UsageError says so."""
        complaints = []
        for path in (self._path, self._backup):
            try:
                if content := path.read_bytes():  # an empty one is what a kill may leave of Java's clients
                    return parse_offsets(content)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                complaints.append(f"{path}: {error}")
        if complaints:
            raise UsageError(
                f"the offsets of this member cannot be read ({'; '.join(complaints)}): mend the file, or delete it "
                "to start anew"
            )
        return {}

    def save(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Write `offsets` beside those of other topics that the file has, and return all. Blocks."""
        known = self.load()
        text = offset_file({**known, **offsets}).encode()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if known:
                self._replace(self._backup, offset_file(known).encode())
            self._replace(self._path, text)
        except OSError as error:
            raise UsageError(f"the offsets of this member cannot be written: {error}") from error
        return {**known, **offsets}

    @property
    def _backup(self) -> Path:
        return self._path.with_suffix(".json.bak")

    @staticmethod
    def _replace(path: Path, content: bytes) -> None:
        """Put `content` in the place of `path` at once: a reader sees the old or the new file."""
        with NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
