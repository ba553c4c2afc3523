"""Damages data folders of a fake broker, one file and one way at a time, and judges what the next start makes of it.

A start must serve all that was acknowledged, as it was, or refuse with DamagedDataError, again and again until somebody
says `repair`; a repaired folder serves nothing that was never sent, and has said what it dropped.
"""

from __future__ import annotations

import logging
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import ClientType, TopicType
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckRequest,
    ClientSettings,
    GroupConfig,
    OutgoingMessage,
    Received,
    ReceiveRequest,
    Subscription,
    TopicConfig,
)
from aiorocketmq_fake.core.values.profiles import PROFILES
from aiorocketmq_fake.edge.storage.errors import DamagedDataError
from aiorocketmq_fake.edge.storage.journal import Journal
from aiorocketmq_fake.edge.storage.recovery import open_data

__all__ = ["NAME", "WAYS", "Folders", "Judgement", "folders", "judge", "opened", "view"]

NAME = "broker-a.db"
MEMORY = 20_000
"""So little that most messages must be read from the file again."""
LATER = 5_000.0
PAGE = 4096
TOPICS = {"plain": TopicType.NORMAL, "fifo": TopicType.FIFO}
# What of a file is damaged: its content, and what stands in the folders that content may come from.
Damage = Callable[[Path, random.Random, "Folders"], None]


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders to damage, as a kill or an orderly end left them, and where wrong files come from."""

    whole: tuple[Path, ...]
    older: tuple[Path, ...]
    """The same folder at earlier moments."""
    other: tuple[Path, ...]
    """What another broker left, of the same name and with as many commands."""
    views: dict[Path, dict[str, Any]]
    """What a start of a whole folder serves."""


@dataclass
class Judgement:
    """What came of so many damaged folders."""

    served: int = 0
    refused: int = 0
    broken: list[str] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    """Sentences of refusals, with their numbers and paths taken out."""


def _make(now: float) -> Broker:
    return Broker(PROFILES["documented"], now=now, rng=random.Random(7), history=100)


def opened(folder: Path, *, repair: bool = False) -> tuple[Broker, Journal]:
    """Start the core of a broker on a folder; the caller closes or abandons the journal."""
    return open_data(folder / NAME, _make, LATER, memory=MEMORY, repair=repair)


def view(core: Broker) -> dict[str, Any]:
    """List what clients can find out: messages, progress, what is in whose hands. Any: each has its own form."""
    topics = [topic.config for topic in core.topics()]
    return {
        "topics": topics,
        "groups": [group.config for group in core.groups()],
        "messages": {topic.name: core.messages(topic.name) for topic in topics},
        "group_positions": core.group_positions(),
        "leases": [core.leases(group.config.name) for group in core.groups()],
    }


class _Load:
    """Sends, receives and acknowledges; each command is on disk before the next."""

    def __init__(self, folder: Path, letter: bytes, seed: int) -> None:
        self.core, self.journal = open_data(folder / NAME, _make, 1_000.0, memory=MEMORY)
        self.chance = random.Random(seed)
        self.letter = letter
        self.now = 1_000.0
        self.count = 0
        for name, kind in TOPICS.items():
            self.do("create_topic", TopicConfig(name, kind, 2, 2))
        self.do("create_group", GroupConfig("g"))
        self.do("settings", "c", ClientSettings(ClientType.SIMPLE_CONSUMER, subscription=Subscription("g")))

    def do(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        """Do one command and write it."""
        self.now += 0.01
        answer = getattr(self.core, name)(*arguments, now=self.now, **keywords)
        self.journal.note(name, arguments, keywords, self.now)
        self.core.take_events()
        self.core.take_outputs()
        self.journal.flush()
        return answer

    def go_on(self, count: int) -> None:
        """Send so many messages, and settle about a third of them."""
        for _ in range(count):
            self.count += 1
            topic = self.chance.choice(list(TOPICS))
            body = b"%s%d " % (self.letter, self.count) + self.letter * self.chance.choice((10, 300, 5_000))
            message = OutgoingMessage(topic, body, f"m{self.count}")
            if topic == "fifo":
                message = replace(message, message_group="A")
            self.do("send", (message,), client_id="producer")
            if self.count % 3 == 0:
                request = ReceiveRequest("c", "g", topic, batch_size=2, invisible=43_000.0, polling=0.0)
                received = self.do("receive", request)
                assert isinstance(received, Received)
                for delivery in received.deliveries[:1]:
                    entry = AckEntry(delivery.message.content.message_id, delivery.receipt_handle)
                    self.do("ack", AckRequest("c", "g", topic, (entry,)))


def _history(root: Path, letter: bytes, seed: int) -> list[Path]:
    """Run a broker; answers its folder at seven moments, as a kill would leave it, the last one after its end."""
    running = root / "running"
    load = _Load(running, letter, seed)
    moments: list[Path] = []

    def keep() -> None:
        moments.append(shutil.copytree(running, root / f"{len(moments)}"))

    load.go_on(10)
    keep()
    load.journal.checkpoint()
    load.go_on(30)
    keep()
    load.journal.checkpoint()
    load.go_on(15)
    keep()
    load.journal._database.truncate_log()
    load.go_on(15)
    keep()
    load.go_on(1)
    keep()
    load.journal.checkpoint()
    keep()
    load.go_on(9)
    load.journal.close()
    keep()
    shutil.rmtree(running)
    return moments


@contextmanager
def folders(seed: int) -> Iterator[Folders]:
    """Make the folders, and throw them away in the end."""
    with ExitStack() as stack:
        ours, theirs, trial = (
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="damage-"))) for _ in range(3)
        )
        moments, other = _history(ours, b"a", seed), _history(theirs, b"b", seed)
        views = {}
        for folder in moments[-4:]:
            core, journal = opened(shutil.copytree(folder, trial / folder.name))
            views[folder] = view(core)
            journal.abandon()
        yield Folders(tuple(moments[-4:]), tuple(moments), tuple(other), views)


# The ways of damage


def _flip(file: Path, chance: random.Random, _: Folders) -> None:
    content = bytearray(file.read_bytes())
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def _flip_head(file: Path, chance: random.Random, _: Folders) -> None:
    """Hit the beginning, where little space says much."""
    content = bytearray(file.read_bytes())
    if content:
        content[chance.randrange(min(110, len(content)))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def _cut(file: Path, chance: random.Random, _: Folders) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: chance.randrange(len(content) + 1)])


def _zero(file: Path, chance: random.Random, _: Folders) -> None:
    content = bytearray(file.read_bytes())
    start = chance.randrange(len(content) // PAGE + 1) * PAGE
    content[start : start + PAGE] = bytes(len(content[start : start + PAGE]))
    file.write_bytes(content)


def _append(file: Path, chance: random.Random, _: Folders) -> None:
    with file.open("ab") as end:
        end.write(chance.randbytes(chance.choice((1, 30, PAGE, 3 * PAGE))))


def _delete(file: Path, _: random.Random, __: Folders) -> None:
    file.unlink()


def _swap(file: Path, sources: list[Path], chance: random.Random) -> None:
    source = chance.choice(sources) / file.name
    if source.exists():
        shutil.copy(source, file)
    else:
        file.unlink()


def _older(file: Path, chance: random.Random, known: Folders) -> None:
    moment = next(number for number, each in enumerate(known.older) if each.name == file.parent.name)
    _swap(file, [*known.older[:moment]], chance)


def _foreign(file: Path, chance: random.Random, known: Folders) -> None:
    _swap(file, [*known.other], chance)


WAYS: dict[str, Damage] = {
    "flipped bit": _flip,
    "flipped bit in the head": _flip_head,
    "cut end": _cut,
    "zeroed page": _zero,
    "garbage at the end": _append,
    "deleted": _delete,
    "older copy of itself": _older,
    "file of another folder": _foreign,
}


# The judgement


def judge(known: Folders, count: int, seed: int) -> Judgement:
    """Damage so many folders, every way in turn, and start a broker on each."""
    judgement = Judgement()
    logging.getLogger("aiorocketmq_fake.data").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="damage-") as trials:
        for number in range(count):
            chance = random.Random(f"{seed} {number}")
            whole = chance.choice(known.whole)
            way = list(WAYS)[number % len(WAYS)]
            folder = shutil.copytree(whole, Path(trials, str(number), whole.name))
            files = sorted(folder.iterdir())
            # Twice as often those in which most of it is.
            file = chance.choice([*files, *(each for each in files if each.name in (NAME, f"{NAME}-wal"))])
            WAYS[way](file, chance, known)
            judgement.ways[f"{way}: {file.name}"] += 1
            try:
                wrong = _wrong(folder, known.views[whole], judgement)
            except Exception as error:  # whatever else comes out of a start is what is looked for
                wrong = f"{type(error).__name__}: {error}"
            if wrong is not None:
                judgement.broken.append(f"number {number}, moment {whole.name}, {file.name}, {way}: {wrong}")
            shutil.rmtree(folder.parent)
    return judgement


def _wrong(folder: Path, expected: dict[str, Any], judgement: Judgement) -> str | None:
    """Say what is wrong with what a start makes of a folder; None where nothing is."""
    try:
        core, journal = opened(folder)
    except DamagedDataError as damage:
        first = damage
    else:
        judgement.served += 1
        return _different(core, journal, expected)
    judgement.refused += 1
    judgement.said["".join("N" if sign.isdigit() else sign for sign in first.what)] += 1
    try:
        core, journal = opened(folder)
    except DamagedDataError:
        pass
    else:
        journal.abandon()
        return f"refused ({first}), and served by the next start"
    core, journal = opened(folder, repair=True)
    return _made_up(core, journal, expected)


def _different(core: Broker, journal: Journal, expected: dict[str, Any]) -> str | None:
    try:
        found = view(core)
    finally:
        journal.abandon()
    return next((f"served with other {name}" for name in expected if found[name] != expected[name]), None)


def _made_up(core: Broker, journal: Journal, expected: dict[str, Any]) -> str | None:
    """After a repair less may be there, but nothing else, and it must have been told."""
    try:
        if not journal.repaired or "Repaired: " not in journal.repaired:
            return "repaired without a word"
        names_another = "belong to different folders" in journal.repaired
        sent = {
            (name, message.content.message_id): message.content.body
            for name, messages in expected["messages"].items()
            for message in messages
        }
        for topic in core.topics():
            for message in core.messages(topic.config.name):
                body = message.content.body
                known = sent.get((topic.config.name, message.content.message_id))
                if body != known and not (names_another and body.startswith(b"b")):
                    return f"{message.content.message_id} was made up, or changed, by the repair"
    finally:
        journal.close()
    return None
