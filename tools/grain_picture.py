"""Draws who handled which message in two groups of one topic: one that shares messages, and one that shares queues.

`python -m tools.grain_picture` runs both groups against a fake broker for some seconds, records them, and writes
docs/explanation/message-or-queue.svg; with FOLDER, it draws the recording that is there instead.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from aiorocketmq import Message, Producer, PushConsumer, ReceivedMessage, Recorder
from aiorocketmq_fake import FakeBroker
from pyarrow import parquet

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "message-or-queue.svg"

TOPIC, BY_MESSAGE, BY_QUEUE = "orders", "by-message", "by-queue"
QUEUES, PHASE, SEND_EVERY, WORK = 4, 2.5, 0.05, 0.06
"""Queues of the topic; seconds until the third member joins, until the first one leaves, and until the end; seconds
between two messages, and of a handler's work."""

PANELS = {
    BY_QUEUE: "queue-granular: PushConsumer at namesrv:// (remoting)",
    BY_MESSAGE: "message-granular: PushConsumer over gRPC",
}
COLOURS = ("#0072b2", "#e69f00", "#009e73")
"""Of the members, told apart by colour-blind people, too."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """Something of one member in one queue, from when to when (seconds)."""

    member: str
    queue: int
    begin: float
    end: float
    is_again: bool = False
    """The message was handled before."""


@dataclass(frozen=True, slots=True)
class Story:
    """What the recording tells of one group."""

    work: Sequence[Bar]
    owned: Sequence[Bar]
    moments: Sequence[tuple[float, str]]
    """Joins and leaves."""


async def record(folder: Path) -> None:
    """Run both groups: two members each, then a third one, then without the first one."""
    async with FakeBroker(remoting_port=0) as broker:
        await broker.create_topic(TOPIC, queues=QUEUES)
        for group in PANELS:
            await broker.create_group(group)
        addresses = {BY_MESSAGE: broker.endpoint, BY_QUEUE: f"namesrv://{broker.remoting_endpoint}"}
        with Recorder(folder) as recorder:

            def member(group: str) -> PushConsumer:
                return PushConsumer(
                    addresses[group],
                    group=group,
                    subscriptions=[TOPIC],
                    handler=_handle,
                    concurrency=1,
                    hooks=[recorder],
                )

            async with (
                Producer(broker.endpoint, hooks=[recorder]) as producer,
                AsyncExitStack() as leaving,
                AsyncExitStack() as staying,
            ):
                for stack in (leaving, staying):
                    for group in PANELS:
                        await stack.enter_async_context(member(group))
                sending = asyncio.create_task(_send(producer))
                await asyncio.sleep(PHASE)
                for group in PANELS:
                    await staying.enter_async_context(member(group))
                await asyncio.sleep(PHASE)
                await leaving.aclose()
                await asyncio.sleep(PHASE)
                sending.cancel()
                await asyncio.wait([sending])


async def _send(producer: Producer) -> None:
    number = 0
    while True:
        await producer.send(Message(TOPIC, b"%d" % number))
        number += 1
        await asyncio.sleep(SEND_EVERY)


async def _handle(message: ReceivedMessage) -> None:
    await asyncio.sleep(WORK)


def stories(rows: Sequence[Row]) -> dict[str, Story]:
    """What the rows tell of each group, from the first send on; members are named in the order in which they came."""
    rows = sorted(rows, key=lambda row: (row["t_wall_us"], row["seq"]))
    sends: list[int] = [row["t_wall_us"] for row in rows if row["kind"] == "send"]
    begin, end = min(sends), max(sends)

    def seconds(at_us: int) -> float:
        return (min(max(at_us, begin), end) - begin) / 1e6

    return {
        group: _story([row for row in rows if row["group"] == group], seconds, seconds(end))
        for group in PANELS
    }


def _story(rows: Sequence[Row], seconds: Callable[[int], float], end: float) -> Story:
    joined = dict.fromkeys(row["client_id"] for row in rows if row["kind"] == "client.start")
    names = dict(zip(joined, "abcdefgh", strict=False))
    work: list[Bar] = []
    owned: list[Bar] = []
    moments: list[tuple[float, str]] = []
    begun: dict[tuple[str, str], Row] = {}
    held: dict[tuple[str, int], float] = {}
    seen: set[str] = set()
    for row in rows:
        at, member = seconds(row["t_wall_us"]), names.get(row["client_id"], "")
        match row["kind"]:
            case "handle.start":
                begun[member, row["message_id"]] = row
            case "handle.end":
                first = begun.pop((member, row["message_id"]))
                bar = Bar(member, row["queue"], seconds(first["t_wall_us"]), at, row["message_id"] in seen)
                seen.add(row["message_id"])
                if at > bar.begin:
                    work.append(bar)
            case "assign" if row["topic"] == TOPIC and dict(row["cfg"])["grain"] == "queue":
                queues = {each["queue"] for each in row["queues"]}
                given_up = [key for key in held if key[0] == member and key[1] not in queues]
                owned += [Bar(*key, held.pop(key), at) for key in given_up]
                for queue in queues:
                    held.setdefault((member, queue), at)
            case "client.start" if at > 0:
                moments.append((at, f"{member} joins"))
            case "client.stop" if at < end:
                moments.append((at, f"{member} leaves"))
    owned += [Bar(*key, since, end) for key, since in held.items()]
    return Story(work, [bar for bar in owned if bar.end > bar.begin], moments)


WIDTH, LEFT, RIGHT, LANE, HEAD, GAP = 900, 70, 20, 24, 44, 26


def draw(told: Mapping[str, Story]) -> str:
    """The picture as SVG."""
    longest = max(bar.end for story in told.values() for bar in story.work)
    parts, top = [_legend()], 34.0
    for group, story in told.items():
        parts += _panel(PANELS[group], story, top, longest)
        top += HEAD + QUEUES * LANE + GAP
    height = round(top) + 14
    parts += [
        _text(_x(second, longest), height - 10, f"{second} s", "middle", "#667")
        for second in range(int(longest) + 1)
    ]
    return _FRAME.format(width=WIDTH, height=height, parts="\n".join(parts))


_FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
 font-family="sans-serif" font-size="12">
<title>Who handled which message, by queue and time</title>
<desc>Two groups read one topic. Above, each queue belongs to one member, and moves when one joins or leaves. Below,
any member handles messages of any queue.</desc>
<rect width="{width}" height="{height}" fill="#fff"/>
{parts}
</svg>
"""


def _x(at: float, longest: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at / longest


def _legend() -> str:
    parts = [_text(LEFT, 20, "handled by", "start", "#667")]
    for place, (name, colour) in enumerate(zip("abc", COLOURS, strict=True)):
        x = LEFT + 78 + 40 * place
        parts.append(
            f'<rect x="{x}" y="10" width="12" height="12" fill="{colour}"/>' + _text(x + 17, 20, name)
        )
    parts.append(
        f'<rect x="{LEFT + 210}" y="10" width="24" height="12" fill="{COLOURS[0]}" fill-opacity="0.18"/>'
    )
    parts.append(_text(LEFT + 240, 20, "owned by (light)", "start", "#667"))
    parts.append(
        f'<rect x="{LEFT + 355}" y="10" width="8" height="12" fill="{COLOURS[1]}" '
        'stroke="#000" stroke-width="1.5"/>'
    )
    parts.append(_text(LEFT + 370, 20, "handled once more", "start", "#667"))
    return "".join(parts)


def _panel(title: str, story: Story, top: float, longest: float) -> list[str]:
    first = top + HEAD
    bottom = first + QUEUES * LANE
    parts = [_text(LEFT, top + 14, title, "start", "#123", bold=True)]
    for queue in range(QUEUES):
        y = first + queue * LANE
        parts.append(_text(LEFT - 10, y + LANE / 2 + 4, f"queue {queue}", "end", "#445"))
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y + LANE:.0f}" y2="{y + LANE:.0f}" stroke="#dde"/>'
        )
    parts += [_bar(bar, first, longest, inset=0, opacity=0.18) for bar in story.owned]
    parts += [_bar(bar, first, longest, inset=5) for bar in story.work]
    for at, what in story.moments:
        x = _x(at, longest)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{first - 6:.0f}" y2="{bottom:.0f}" '
            'stroke="#222" stroke-dasharray="3 3"/>'
        )
        parts.append(_text(x, first - 10, what, "middle", "#222"))
    return parts


def _bar(bar: Bar, first: float, longest: float, *, inset: int, opacity: float = 1.0) -> str:
    x, width = _x(bar.begin, longest), (bar.end - bar.begin) / longest * (WIDTH - LEFT - RIGHT)
    y = first + bar.queue * LANE + inset
    again = ' stroke="#000" stroke-width="1.5"' if bar.is_again else ""
    colour = COLOURS["abc".index(bar.member)]
    return (
        f'<rect x="{x:.1f}" y="{y:.0f}" width="{width:.1f}" height="{LANE - 2 * inset}" fill="{colour}" '
        f'fill-opacity="{opacity}"{again}/>'
    )


def _text(
    x: float, y: float, words: str, anchor: str = "start", colour: str = "#333", *, bold: bool = False
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}"{weight}>{escape(words)}</text>'
    )


def main() -> int:
    """Record, unless a recording is given, and draw."""
    parser = argparse.ArgumentParser(prog="python -m tools.grain_picture", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=PICTURE)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        if given.folder is None:
            asyncio.run(record(folder))
        rows = parquet.read_table(folder).to_pylist()
    given.out.write_text(draw(stories(rows)), encoding="utf-8")
    print(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
