"""What following counts of files that are new: by file, recorder and boot, over numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pyspark.sql import Row

from aiorocketmq_audit import gates
from aiorocketmq_audit.kernels.events import Events, Mask, Piece, Reader, pieces
from aiorocketmq_audit.kernels.recorders import by_kind
from aiorocketmq_audit.kernels.tasks import Workers


def numbers(workers: Workers, paths: Sequence[str], judged_us: int | None) -> list[Row]:
    """As `gates.numbers` has them, with the `file` and the counts that verdicts rest on; `late_rows` are from a time
    that had been judged."""
    tasks = [pieces([path], 1 << 62) for path in paths]
    rows = [Row(**row) for found in workers.each(_Counted(judged_us), tasks) for row in found]
    return gates.added_up(rows, more=1)


@dataclass(frozen=True, slots=True)
class _Counted:
    judged_us: int | None

    def __call__(self, parts: Sequence[Piece]) -> list[dict[str, object]]:
        reader = Reader()
        rows = []
        for part in parts:
            for row in by_kind(events := reader.read(part), also=self._counts(events)):
                place = {
                    "recorder": row["recorder"],
                    "boot": row["boot"],
                    "file": f"file://{quote(part.path)}",
                }
                rows.append(place | row)
        return rows

    def _counts(self, events: Events) -> dict[str, Mask]:
        given, ok = events.one_of("kind", "deliver"), events.one_of("phase", "ok")
        late = events.number("t_wall_us") < (0 if self.judged_us is None else self.judged_us)
        return {
            "deliveries": given,
            "ordered deliveries": given & events.known("message_group"),
            "redeliveries": given & (events.number("attempt") > 1),
            "delayed deliveries": given & events.told("due_us"),
            "dead letters": events.one_of("kind", "dlq.deliver"),
            "sends": events.one_of("kind", "send") & ok,
            "settled": events.one_of("kind", "ack", "change", "forward") & ok,
            "late_rows": late,
        }
