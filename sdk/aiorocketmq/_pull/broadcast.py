"""Broadcast consumption: each member reads every queue, and keeps its offsets in a file of its own.

Path and format are those of Java's clients, so that either continues where the other has stopped
(live-broker-remoting.md, 7.2)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile

from aiorocketmq._aio.shielding import uninterrupted
from aiorocketmq._core.remoting.bodies import offset_file, parse_offsets
from aiorocketmq._pull.interface import PullSettings
from aiorocketmq._pull.remoting_calls import RemotingPullCalls
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq.errors import UsageError
from aiorocketmq.message import MessageQueue


class BroadcastPullCalls(RemotingPullCalls):
    """Pulls as usual; offsets from the member's own file, and no other members."""

    def __init__(self, session: RemotingSession, settings: PullSettings, file: OffsetFile) -> None:
        super().__init__(session, settings)
        self._file = file
        self._offsets: dict[MessageQueue, int] = {}
        """The committed offsets, whether written yet or not."""
        self._written: Mapping[MessageQueue, int] | None = None
        """The offsets in the file; None before it was read."""
        self._turn = asyncio.Lock()

    async def consumers(self, topic: str) -> tuple[str, ...]:
        """This member alone: it reads everything."""
        return (self._session.client_id,)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of this member in `queue`; UsageError if its file cannot be read."""
        async with self._turn:
            if self._written is None:
                self._written = await asyncio.to_thread(self._file.load)
        return self._written.get(queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Write the member's next offset; concurrent commits are one write, and a cancelled one waits for it. Raises
        UsageError if the file cannot be written."""
        self._offsets[queue] = offset
        async with self._turn:
            if self._written is None or self._written.get(queue) != offset:
                # A thread cannot be cancelled, and would overwrite what the next commit writes.
                await uninterrupted(self._save())

    async def _save(self) -> None:
        self._written = await asyncio.to_thread(self._file.save, dict(self._offsets))


class OffsetFile:
    """The offsets of one member, in a file that survives a kill at any moment."""

    def __init__(self, directory: Path, member: str, group: str) -> None:
        """`member` names the member's folder, which must not change."""
        if not member or "/" in member or "\\" in member or member in (".", ".."):
            raise ValueError(f"member {member!r} must be a name that a folder can have")
        self._path = directory / member / group / "offsets.json"

    def load(self) -> dict[MessageQueue, int]:
        """Return the offsets as last written; none without a file. Blocks.

        For a damaged file, its predecessor `.bak` is used; if that is damaged as well, raises UsageError."""
        complaints = []
        for path in (self._path, self._backup):
            try:
                if content := path.read_bytes():  # a kill of Java's clients may leave an empty one
                    return parse_offsets(content)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                complaints.append(f"{path}: {error}")
        if complaints:
            raise UsageError(
                f"the offsets of this member cannot be read ({'; '.join(complaints)}): repair the file, or delete it "
                "to start again"
            )
        return {}

    def save(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Merge `offsets` into the file, which may have those of other topics, and return all. Blocks."""
        saved = self.load()
        text = offset_file({**saved, **offsets}).encode()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if saved:
                self._replace(self._backup, offset_file(saved).encode())
            self._replace(self._path, text)
        except OSError as error:
            raise UsageError(f"the offsets of this member cannot be written: {error}") from error
        return {**saved, **offsets}

    @property
    def _backup(self) -> Path:
        return self._path.with_suffix(".json.bak")

    @staticmethod
    def _replace(path: Path, content: bytes) -> None:
        """Replace `path` by `content` atomically: a reader gets the old or the new file."""
        with NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
