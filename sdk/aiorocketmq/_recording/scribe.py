"""Writes facts down: the account and the files of one recorder, wherever their work is done."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from aiorocketmq._recording.account import Account
from aiorocketmq._recording.facts import Fact
from aiorocketmq._recording.files import Destination, RecordingFiles


class Scribe:
    """Makes rows of facts and files of rows, in the thread that calls it."""

    def __init__(self, destination: Destination, account: Account | None = None, *, first: int = 0) -> None:
        self._destination = destination
        self._account = Account() if account is None else account
        self._files = RecordingFiles(destination, first=first)

    def take(self, facts: Sequence[Fact]) -> None:
        """Write down the next facts, in their order; none at all are a reason to look whether a file is old."""
        self._account.take(facts, self._files.sheet)
        self._files.look()

    def close(self) -> None:
        """Complete the last file."""
        self._files.close()

    def stop(self) -> None:
        """Complete the last file without what waits for it, because something went wrong."""
        self._files.stop()

    def successor(self) -> bytes:
        """Complete the file at hand, and pack all that another scribe needs to go on; raises what pickling does."""
        self._files.close()
        return pickle.dumps((self._destination, self._account, self._files.count))

    @classmethod
    def unpacked(cls, packed: bytes) -> Scribe:
        """The scribe who goes on."""
        destination, account, first = pickle.loads(packed)
        return cls(destination, account, first=first)
