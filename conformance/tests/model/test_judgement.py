"""Small histories: each with one response that the documents forbid, and its neighbour that they allow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aiorocketmq_conformance.explore.expressions import lite as subscribed, tags
from aiorocketmq_conformance.model.calls import Receive

from conformance.tests.model.story import APACHE, DOCUMENTED, Story

INVALID = "INVALID_RECEIPT_HANDLE"


def sent(*names: str, **story: object) -> Story:
    return Story(**story).send(*(names or ("m",)))  # type: ignore[arg-type]  # keywords of Story


def leased(**story: object) -> Story:
    return sent(**story).receive("m")


def lite(name: str) -> Story:
    return Story(type_="LITE", ordered=True).send("m", message_group=name)


IN_X = {"message_group": "x"}

PAIRS: dict[str, tuple[str, Story, Story]] = {
    # Sends
    "illegal message accepted": (
        "send",
        Story().send("m", is_legal=False).receive("m"),
        Story().send("m", is_legal=False, code="ILLEGAL_MESSAGE_TAG"),
    ),
    "legal message refused": ("send", Story().send("m", code="BAD_REQUEST"), Story().send("m").receive("m")),
    "refused message delivered": (
        "refused",
        Story().send("m", is_legal=False, code="ILLEGAL_MESSAGE_TAG").receive("m"),
        Story().send("m", is_legal=False, code="ILLEGAL_MESSAGE_TAG").at(5).receive(begun=0),
    ),
    "delivered beside itself, and once or twice sent": (
        "lease",
        leased().at(1).receive("m"),
        Story().send("m").send("m").receive("m").at(1).receive("m"),
    ),
    "a leased batch again, for another or the same attempt id": (
        "lease",
        leased(type_="FIFO", ordered=True).at(1).receive("m"),
        leased(type_="FIFO", ordered=True).at(1).receive("m", repeats=True),
    ),
    "a second attempt, and the first one nowhere or lost with the server": (
        "attempt",
        sent().at(40).receive("m", attempt=2),
        sent().receive(code="", is_cut=True, has_died=True).at(40).receive("m", attempt=2),
    ),
    # Pulls
    "pull of a message at another offset": ("pull", sent().pull("m", first=3), sent().pull("m")),
    "pull of a changed body": ("pull", sent().pull("m", body="other"), sent().pull("m")),
    "pull with another next offset": ("pull", sent().pull("m", next_offset=2), sent().pull("m")),
    "pull of more than the batch": (
        "pull",
        sent("m", "n").pull("m", "n", batch=1),
        sent("m", "n").pull("m", "n"),
    ),
    "pull with fewer than are known": (
        "pull",
        sent("m", "n").pull("m", "n").pull("m"),
        sent("m", "n").pull("m", "n").pull("m", batch=1),
    ),
    "pull of a refused message": (
        "pull",
        Story().send("m", is_legal=False, code="ILLEGAL_MESSAGE_TAG").pull("m"),
        Story().send("m", is_legal=False, code="ILLEGAL_MESSAGE_TAG").at(5).pull(begun=0),
    ),
    "pull of another tag": (
        "pull",
        sent().pull("m", selected="a", tag="b"),
        Story().send("m", tag="a").pull("m", selected="a", tag="a"),
    ),
    "pull from another queue": ("pull", sent().pull("m", queue=1), sent().pull("m")),
    "pull before the message is due": (
        "pull",
        Story(type_="DELAY").send("m", due=60.0).at(30).pull("m"),
        Story(type_="DELAY").send("m", due=60.0).at(60).pull("m"),
    ),
    "pull that misses what it waits for": (
        "pull",
        Story().at(1).send("m").at(5).pull(begun=0).at(6).pull("m"),
        Story().at(4.5).send("m").at(5).pull(begun=0).at(6).pull("m"),
    ),
    "pull that ends early": ("pull", Story().at(1).pull(begun=0), Story().at(5).pull(begun=0)),
    "pull that ends late": ("pull", Story().at(30).pull(begun=0), Story().at(5).pull(begun=0)),
    "pull of a stored message that waits": (
        "pull",
        sent().pull("m").at(30).pull("m", begun=1, poll=60),
        sent().pull("m").at(30).pull("m", poll=60),
    ),
    "pulled after its deletion": (
        "pull",
        sent().at(9).trim(5).pull("m"),
        sent().at(9).trim(10).pull("m"),
    ),
    "pull that is refused, inside and outside of the queue": (
        "pull",
        sent().pull("m").pull(code="ILLEGAL_OFFSET"),
        sent().pull("m").pull(offset=5, next_offset=1, code="ILLEGAL_OFFSET"),
    ),
    # Lite topics
    "a message of another lite topic": (
        "filter",
        lite("y").receive("m", filter=subscribed("x", "z"), changes={"message_group": "y"}),
        lite("y").receive("m", filter=subscribed("x", "y"), changes={"message_group": "y"}),
    ),
    "a lite topic that nobody has read in the end": (
        "lost",
        lite("y").at(1).receive(begun=0, filter=subscribed("x")).at(20).drained(),
        lite("y")
        .at(1)
        .receive("m", filter=subscribed("y"), changes={"message_group": "y"})
        .ack("m")
        .at(20)
        .drained(),
    ),
    "one offset for two messages of a lite topic": (
        "offset",
        lite("x")
        .send("n", message_group="x")
        .receive("m", "n", filter=subscribed("x"), place=(0, 0), changes=IN_X),
        lite("x").receive("m", filter=subscribed("x"), place=(0, 0), changes=IN_X),
    ),
    # Committed offsets, ends of queues, members and locks
    "another offset than the committed one": (
        "offset",
        Story().commit(3).commit(2).committed(3),
        Story().commit(3).commit(2).committed(2),
    ),
    "a refused commit": ("offset", Story().commit(3, code="ERROR"), Story().commit(3)),
    "a commit without a response that takes effect late": (
        "offset",
        Story().commit(3).commit(2).committed(3),
        Story().commit(3, code="").commit(2).committed(3).committed(2),
    ),
    "what a pull has committed": (
        "offset",
        sent().pull("m", commit=0).committed(1),
        sent().pull("m", commit=0).committed(0).commit(1).committed(1),
    ),
    "a commit that a restart has lost": (
        "offset",
        Story().commit(3).restart().committed(None),
        Story().restart().committed(None),
    ),
    "the end of a queue in front of a stored message": (
        "offset",
        sent("m", "n").at(1).ends(0, 1).pull("m", "n"),
        sent("m", "n").at(1).ends(0, 2).pull("m", "n"),
    ),
    "the end of a queue behind a message that is not sent": (
        "offset",
        sent("m").at(1).ends(0, 2).at(2).send("n").pull("m", "n"),
        sent("m").at(1).ends(0, 1).at(2).send("n").pull("m", "n"),
    ),
    "the begin of a queue behind a message": (
        "offset",
        sent().at(1).ends(1, 1).pull("m"),
        sent().at(9).trim(5).ends(1, 1),
    ),
    "a member that is left out": (
        "members",
        Story().joined("a").joined("b").noticed("a").members("b"),
        Story().joined("a").at(119).joined("b").noticed("a").at(121).members("b"),
    ),
    "a member that has left": (
        "members",
        Story().joined("a").joined("b").noticed("a").left("a").noticed("b").members("a", "b"),
        Story().joined("a").joined("b").noticed("a").left("a").joined("a").noticed("b").members("a", "b"),
    ),
    "a member twice": ("members", Story().joined("a").members("a", "a"), Story().joined("a").members("a")),
    "a member of before a restart": (
        "members",
        Story().joined("a").restart().members("a"),
        Story().joined("a").restart().members(),
    ),
    "a member that comes, and the others are not told": (
        "notice",
        Story().joined("a").joined("b").noticed("a").at(5).joined("c").noticed("a"),
        Story().joined("a").joined("b").noticed("a").at(5).joined("c").noticed("b", "a"),
    ),
    "a member that goes, and another one is told late": (
        "notice",
        Story().joined("a").joined("b").noticed("a").at(5).left("b").at(9).noticed("a"),
        Story().joined("a").joined("b").noticed("a").at(5).joined("b").left("b").at(5.5).noticed("a"),
    ),
    "the lock of another member": (
        "lock",
        Story().lock("a", 0).at(50).lock("a", 0).at(109).lock("b", 0),
        Story().lock("a", 0).at(50).lock("a", 0).at(111).lock("b", 0),
    ),
    "a free lock that is refused": (
        "lock",
        Story().lock("a", 0).unlock("b", 0).unlock("a", 0).lock("b"),
        Story().lock("a", 0).unlock("b", 0).lock("b").unlock("a", 0).lock("b", 0),
    ),
    "a lock that has ended and is refused": (
        "lock",
        Story().lock("a", 0).at(61).lock("b"),
        Story().lock("a", 0).at(59).lock("b"),
    ),
    "one lock of several": (
        "lock",
        Story().lock("a", 0, asked=(0, 1)),
        Story().lock("a", 1, asked=(1,)).lock("b", 0, asked=(0, 1)),
    ),
    "a lock that nobody asked for": (
        "lock",
        Story().lock("a", 0, 1),
        Story().lock("a", 0, 1, asked=(0, 1)),
    ),
    "delivered although it was stored before the time of the reset": (
        "reset",
        sent().at(9).reset(to_end=False, to=5).receive("m"),
        sent().at(9).reset(to_end=False, to=-1).receive("m"),
    ),
    "not delivered although it was stored after the time of the reset": (
        "lost",
        leased().ack("m").at(9).reset(to_end=False, to=-1).at(30).drained(),
        leased().ack("m").at(9).reset(to_end=False, to=5).at(30).drained(),
    ),
    # Retention
    "delivered after its deletion": (
        "retention",
        sent().at(9).trim(5).receive("m"),
        sent().at(9).trim(10).receive("m"),
    ),
    "kept as it was too young": (
        "lost",
        Story().at(5).receive(begun=0).send("m").at(14).trim(10).at(30).drained(),
        Story().at(5).receive(begun=0).send("m").at(14).trim(5).at(30).drained(),
    ),
    # Content and filters
    "message from nowhere": ("origin", Story().receive("m"), leased()),
    "body changed": ("content", sent().receive("m", changes={"body": "other"}), leased()),
    "filter ignored": (
        "filter",
        Story().send("m", tag="a").receive("m", changes={"tag": "a"}, filter=tags("b||c")),
        Story().send("m", tag="a").receive("m", changes={"tag": "a"}, filter=tags("b||a")),
    ),
    "more than the batch": (
        "receive",
        sent("m", "n").receive("m", "n", batch=1),
        sent("m", "n").receive("m", "n", batch=2),
    ),
    # Leases
    "delivered while leased": (
        "lease",
        leased().at(9.9).receive("m", attempt=2),
        leased().at(10.0).receive("m", attempt=2),
    ),
    "delivered while the longer lease lives": (
        "lease",
        leased().at(5).change("m", 20).at(24.9).receive("m", attempt=2),
        leased().at(5).change("m", 20).at(25.0).receive("m", attempt=2),
    ),
    "delivered before the end of a shortened lease": (
        "lease",
        leased().at(1).change("m", 5).at(5.9).receive("m", attempt=2),
        leased().at(1).change("m", 5).at(6.0).receive("m", attempt=2),
    ),
    "parked poll answered too late after a lease": (
        "wake",
        leased().at(13.1).receive("m", attempt=2, begun=9.0),
        leased().at(12.9).receive("m", attempt=2, begun=9.0),
    ),
    "acknowledged and delivered again": (
        "settled",
        leased().ack("m").at(10).receive("m", attempt=2),
        leased().at(10).receive("m", attempt=2).ack("m"),
    ),
    "renewed lease ends while its client lives": (
        "lease",
        sent().receive("m", auto_renew=True).at(100).receive("m", attempt=2),
        sent().receive("m", auto_renew=True).at(90).gone().at(100).receive("m", attempt=2),
    ),
    # Handles
    "ack of a good handle refused": (
        "ack",
        leased().at(9.9).ack("m", codes=(INVALID,)),
        leased().at(9.9).ack("m"),
    ),
    "ack of an expired handle accepted": (
        "ack",
        leased().at(10.1).ack("m"),
        leased().at(10.1).ack("m", codes=(INVALID,)),
    ),
    "ack of an unknown handle accepted": (
        "ack",
        leased().ack("n"),
        leased().ack("n", codes=(INVALID,)),
    ),
    "third entry of an ack": (
        "ack",
        sent("m", "n").receive("m", "n").ack("m", "n", "x", codes=("OK", "OK", "OK")),
        sent("m", "n").receive("m", "n").ack("m", "n", "x", codes=("OK", "OK", INVALID)),
    ),
    "whole code of a mixed ack": (
        "ack",
        leased().ack("m", "x", codes=("OK", INVALID), code="OK"),
        leased().ack("m", "x", codes=("OK", INVALID), code="MULTIPLE_RESULTS"),
    ),
    "old handle acks after a change": (
        "ack",
        sent().receive("m", handle="first").change("m", 20).ack("m", entries=(("m", "first"),)),
        sent()
        .receive("m", handle="first")
        .change("m", 20)
        .ack("m", entries=(("m", "first"),), codes=(INVALID,)),
    ),
    "change of an expired lease": (
        "change",
        leased().at(10.1).change("m", 20),
        leased().at(10.1).change("m", 20, code=INVALID),
    ),
    "change beyond the longest lease": (
        "change",
        leased().change("m", 43_200.5),
        leased().change("m", 43_200.5, code="ILLEGAL_INVISIBLE_TIME"),
    ),
    "change without a new handle": ("change", leased().change("m", 20, new=""), leased().change("m", 20)),
    "handle used twice": (
        "handle",
        sent().receive("m", handle="first").at(10).receive("m", attempt=2, handle="first"),
        leased().at(10).receive("m", attempt=2),
    ),
    "forward of an expired lease": (
        "forward",
        leased().at(10.1).forward("m"),
        leased().at(10.1).forward("m", code=INVALID),
    ),
    # Attempts and dead letters
    "attempt stays": (
        "attempt",
        leased().at(10).receive("m", attempt=1),
        leased().at(10).receive("m", attempt=2),
    ),
    "suspended delivery is counted": (
        "attempt",
        leased().change("m", 0, suspend=True).receive("m", attempt=2),
        leased().change("m", 0, suspend=True).receive("m", attempt=1),
    ),
    "more attempts than the group has": (
        "attempts",
        leased(limit=1).at(10).receive("m", attempt=2),
        leased(limit=2).at(10).receive("m", attempt=2),
    ),
    "dead letter too early": (
        "dead letter",
        leased(limit=2).at(10).group("readers").receive("m", topic="%DLQ%group", group="readers"),
        leased(limit=1).at(10).group("readers").receive("m", topic="%DLQ%group", group="readers"),
    ),
    "dead letter missing": (
        "dead letter",
        leased(limit=1).at(20).drained("%DLQ%group", "readers"),
        leased(limit=2).at(20).drained("%DLQ%group", "readers"),
    ),
    "forwarded and delivered again": (
        "settled",
        leased().forward("m").at(10).receive("m", attempt=2),
        leased().forward("m").at(15).receive(begun=10),
    ),
    # Presence
    "empty poll beside a visible message": (
        "empty",
        sent().at(5).receive(begun=0),
        Story().at(4.5).send("m").at(5).receive(begun=0),
    ),
    "poll ends too early": ("poll", Story().at(4).receive(begun=0), Story().at(5).receive(begun=0)),
    "poll ends too late": ("poll", Story().at(8).receive(begun=0), Story().at(7).receive(begun=0)),
    "lost": ("lost", leased().at(20).drained(), leased().ack("m").at(20).drained()),
    "skipped for good by a filter": (
        "lost",
        Story().send("m", tag="a").receive("m", changes={"tag": "a"}, filter=tags("a")).at(20).drained(),
        Story()
        .send("m", tag="a")
        .at(5)
        .receive(begun=0, filter=tags("b"))
        .receive("m", changes={"tag": "a"})
        .at(20)
        .drained(),
    ),
    "lag too low": ("lag", sent("m", "n").receive("m").lag(0, 1), sent("m", "n").receive("m").lag(1, 1)),
    "in flight too high": ("lag", leased().ack("m").lag(0, 1), leased().ack("m").lag(0, 0)),
    # Delays, recalls, transactions
    "before its delivery time": (
        "delay",
        Story(type_="DELAY").send("m", due=5).at(4.9).receive("m"),
        Story(type_="DELAY").send("m", due=5).at(5).receive("m"),
    ),
    "recalled and delivered": (
        "recall",
        Story(type_="DELAY").send("m", due=5).recall("m").at(5).receive("m"),
        Story(type_="DELAY").send("m", due=5).recall("m").at(9).receive(begun=4),
    ),
    "recall in time refused": (
        "recall",
        Story(type_="DELAY").send("m", due=5).recall("m", code="MESSAGE_NOT_FOUND"),
        Story(type_="DELAY").send("m", due=5).at(6).recall("m", code="MESSAGE_NOT_FOUND"),
    ),
    "half message delivered": (
        "transaction",
        Story(type_="TRANSACTION").send("m").receive("m"),
        Story(type_="TRANSACTION").send("m").end("m").receive("m"),
    ),
    "rolled back and delivered": (
        "transaction",
        Story(type_="TRANSACTION").send("m").end("m", "rollback").receive("m"),
        Story(type_="TRANSACTION").send("m").end("m", "rollback").at(9).receive(begun=4),
    ),
    "second decision accepted": (
        "transaction",
        Story(type_="TRANSACTION").send("m").end("m").end("m"),
        Story(type_="TRANSACTION").send("m").end("m").end("m", code="INVALID_TRANSACTION_ID"),
    ),
    # Order
    "message group overtaken": (
        "order",
        Story(type_="FIFO", ordered=True)
        .send("m", message_group="x")
        .send("n", message_group="x")
        .receive("n", changes={"message_group": "x"}),
        Story(type_="FIFO", ordered=True)
        .send("m", message_group="x")
        .send("n", message_group="x")
        .receive("m", changes={"message_group": "x"})
        .ack("m")
        .receive("n", changes={"message_group": "x"}),
    ),
    "batch in the wrong order": (
        "order",
        Story(type_="FIFO", ordered=True)
        .send("m", "n", message_group="x")
        .receive("n", "m", changes={"message_group": "x"}),
        Story(type_="FIFO", ordered=True)
        .send("m", "n", message_group="x")
        .receive("m", "n", changes={"message_group": "x"}),
    ),
    "message group in two queues": (
        "order",
        Story(type_="FIFO", queues=2)
        .send("m", "n", message_group="x")
        .receive("m", changes={"message_group": "x"}, place=(0, 0))
        .receive("n", changes={"message_group": "x"}, place=(1, 0)),
        Story(type_="FIFO", queues=2)
        .send("m", "n", message_group="x")
        .receive("m", changes={"message_group": "x"}, place=(0, 0))
        .receive("n", changes={"message_group": "x"}, place=(0, 1)),
    ),
    # Offsets, resets, groups
    "one offset for two messages": (
        "offset",
        sent("m", "n").receive("m", place=(0, 0)).receive("n", place=(0, 0)),
        sent("m", "n").receive("m", place=(0, 0)).receive("n", place=(0, 1)),
    ),
    "redelivery from another offset": (
        "offset",
        sent().receive("m", place=(0, 0)).at(10).receive("m", attempt=2, place=(0, 1)),
        sent().receive("m", place=(0, 0)).at(10).receive("m", attempt=2, place=(0, 0)),
    ),
    "queue that the topic does not have": (
        "queue",
        sent(queues=3).receive("m", place=(3, 0)),
        sent(queues=3).receive("m", place=(2, 0)),
    ),
    "delivered after a reset to the end": (
        "reset",
        sent().reset(to_end=True).receive("m"),
        sent().reset(to_end=False).receive("m"),
    ),
    "not delivered after a reset to the beginning": (
        "lost",
        leased().ack("m").reset(to_end=False).at(20).drained(),
        leased().ack("m").reset(to_end=False).receive("m").ack("m").at(20).drained(),
    ),
    "older than its group": (
        "start",
        sent().group("late").receive("m", group="late"),
        Story().group("late").send("m").receive("m", group="late"),
    ),
    # Servers' answers about groups and topics
    "order of a group": (
        "settings",
        Story(ordered=True).settings(ordered=False, attempts=3),
        Story(ordered=True).settings(ordered=True, attempts=3),
    ),
    "attempts of a group": (
        "settings",
        Story(limit=3).settings(ordered=False, attempts=4),
        Story(limit=3).settings(ordered=False, attempts=3),
    ),
    "last queue of a route": ("route", Story(queues=3).route(0, 1), Story(queues=3).route(0, 1, 2)),
    "first queue alone assigned": (
        "assignment",
        Story(queues=3).assigned(0),
        Story(queues=3).assigned(-1),
    ),
    # What administrators change
    "attempts of a group after a change": (
        "settings",
        Story(limit=3).group(limit=5).settings(ordered=False, attempts=3),
        Story(limit=3).group(limit=5).settings(ordered=False, attempts=5),
    ),
    "given up by a limit that was raised in time": (
        "lost",
        leased(limit=1).at(5).group(limit=2).at(20).drained(),
        leased(limit=1).at(5).group(limit=1).at(20).drained(),
    ),
    "redelivered by a limit that was lowered in time": (
        "attempts",
        leased(limit=2).at(5).group(limit=1).at(10).receive("m", attempt=2),
        leased(limit=2).at(15).group(limit=1).receive("m", attempt=2),
    ),
    "dead letter of a limit that was lowered in time": (
        "dead letter",
        leased(limit=2).at(5).group(limit=1).at(20).drained("%DLQ%group", "readers"),
        leased(limit=2)
        .at(5)
        .group(limit=1)
        .at(12)
        .receive("m", topic="%DLQ%group", group="readers")
        .at(20)
        .drained("%DLQ%group", "readers"),
    ),
    "given up although its last delivery does not count": (
        "lost",
        leased(limit=2).change("m", 10, suspend=True).group(limit=2).at(30).drained(),
        leased(limit=2)
        .at(10)
        .receive("m", attempt=2)
        .change("m", 10, suspend=True)
        .group(limit=1)
        .at(40)
        .drained(),
    ),
    "redelivered as it was lowered too late": (
        "lost",
        leased(limit=2).at(30).drained(),
        leased(limit=2).at(15).group(limit=1).at(30).drained(),
    ),
    "route after a change": (
        "route",
        Story(queues=1).queues(3).at(6).route(0),
        Story(queues=1).queues(3).route(0).at(6).route(0, 1, 2),
    ),
    "queue that the topic got": (
        "queue",
        sent(queues=1).queues(3).receive("m", place=(3, 0)),
        sent(queues=1).queues(3).receive("m", place=(2, 0)),
    ),
    "older than its group, which was deleted before": (
        "start",
        sent().group(is_anew=True).receive("m"),
        sent().group(is_anew=True).send("n").receive("n"),
    ),
    "redelivered to a group that was deleted meanwhile": (
        "start",
        leased().group(is_anew=True).at(10).receive("m", attempt=2),
        leased().group(is_anew=True).at(20).drained(),
    ),
    "not delivered to a group that was deleted before": (
        "lost",
        leased().group(is_anew=True).send("n").at(1).receive(filter=tags("*")).at(20).drained(),
        leased().group(is_anew=True).send("n").receive("n").ack("n").at(20).drained(),
    ),
    # Checks, priorities, store times, pauses
    "check with other content": (
        "check",
        Story(type_="TRANSACTION").send("m", tag="a").at(7).check("m"),
        Story(type_="TRANSACTION").send("m", tag="a").at(7).check("m", tag="a"),
    ),
    "check too early": (
        "check",
        Story(type_="TRANSACTION").send("m").at(2.9).check("m"),
        Story(type_="TRANSACTION").send("m").at(3).check("m"),
    ),
    "never checked": (
        "check",
        Story(type_="TRANSACTION").send("m").at(200).drained(),
        Story(type_="TRANSACTION").send("m").at(100).check("m").at(200).drained(),
    ),
    "low priority first": (
        "priority",
        Story(type_="PRIORITY", queues=2)
        .send("m", priority=0)
        .send("n", priority=1)
        .receive("m", "n", priorities=(0, 1)),
        Story(type_="PRIORITY", queues=2)
        .send("m", priority=0)
        .send("n", priority=1)
        .receive("n", "m", priorities=(1, 0)),
    ),
    "stored before it was sent": (
        "store time",
        Story().at(5).send("m").receive("m", stored=4.9),
        Story().at(5).send("m").receive("m", stored=5.0),
    ),
    "redelivered with another store time": (
        "store time",
        leased().at(10).receive("m", attempt=2, stored=10.0),
        leased().at(10).receive("m", attempt=2, stored=0.0),
    ),
    "poll over a pause": (
        "poll",
        Story().pause(3.0).at(11.0).receive(begun=1.0, poll=5.0),
        Story().pause(3.0).at(9.0).receive(begun=1.0, poll=5.0),
    ),
    "a change that may have come before the end of its lease": (
        "change",
        leased().at(9).change("m", 30).at(11).change("m", 30, code=INVALID),
        leased().at(9.98).change("m", 30, code="INTERNAL_SERVER_ERROR").at(11).change("m", 30, code=INVALID),
    ),
    "a change that surely came after the end of its lease": (
        "change",
        leased().at(20).change("m", 30, code="INTERNAL_SERVER_ERROR").at(30).change("m", 30),
        leased().at(20).change("m", 30, code="INTERNAL_SERVER_ERROR").at(30).change("m", 30, code=INVALID),
    ),
    "redelivered late, and a lease that ended in a pause": (
        "wake",
        leased().at(5).pause(4.0).at(15).receive("m", attempt=2, begun=12.5),
        leased().at(5).pause(8.0).at(15).receive("m", attempt=2, begun=13.5),
    ),
    "a poll that waits while a message is visible, and is stopped by a pause": (
        "wake",
        sent().pause(0.5).at(4.0).receive("m", begun=0.0, stored=0.0),
        sent().at(0.1).pause(3.5).at(4.0).receive("m", begun=0.05, stored=0.0),
    ),
    "lease lost in a restart": (
        "lease",
        leased().restart().at(1).receive("m", attempt=2),
        leased().restart().at(10).receive("m", attempt=2),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_model_objects(name: str) -> None:
    rule, illegal, _ = PAIRS[name]
    assert rule in illegal.rules(DOCUMENTED)


@pytest.mark.parametrize("name", PAIRS)
def test_the_model_allows_the_neighbour(name: str) -> None:
    assert PAIRS[name][2].rules(DOCUMENTED) == []


def test_a_call_may_take_effect_before_its_response() -> None:
    """A poll may be answered with a message whose send has no response yet, and after an ack without one."""
    story = Story().send("m")
    send = story.events.pop()
    story.receive("m")
    story.events.append(send)
    assert story.rules() == []


@pytest.mark.parametrize(
    "story",
    [
        sent().receive("m", handle="first").change("m", 20).ack("m", entries=(("m", "first"),)),
        leased().at(10).receive("m", attempt=2, place=(0, 7)),
        leased().at(10).receive("m", attempt=2, stored=10.0),
        sent().group("late").receive("m", group="late"),
    ],
    ids=["replaced handle", "position of the retry topic", "store time there", "whole queues"],
)
def test_servers_may_differ_from_the_documents_as_declared(story: Story) -> None:
    rules = {"ack", "offset", "store time", "start"}
    assert set(story.rules(DOCUMENTED)) & rules
    assert not set(story.rules(APACHE)) & rules


def test_a_lease_outlives_its_client_until_the_restart_of_a_server() -> None:
    """A crashed client is not forgotten yet: its lease, renewed at 100 s, lasts to 280 s."""
    story = sent().receive("m", auto_renew=True).at(31).gone(crashed=True).at(107).restart()
    assert story.at(170).drained().rules() == []
    assert story.at(300).drained().rules() == ["lost"]


def test_a_call_without_a_decision_may_make_the_next_one_fail() -> None:
    story = Story(type_="TRANSACTION").send("m")
    assert story.end("m", "unspecified").end("m", code="INVALID_TRANSACTION_ID").rules() == []


def test_a_server_that_checks_the_form_of_handles_takes_replaced_ones_until_their_own_end() -> None:
    story = sent().receive("m", handle="first", invisible=60.0).change("m", 20.0)
    story.at(30).ack("m", entries=(("m", "first"),))
    assert story.rules(DOCUMENTED) == ["ack"]
    assert story.rules(APACHE) == []


@pytest.mark.parametrize(("later", "rules"), [(0.0, []), (0.001, []), (0.002, ["lag", "lost"])])
def test_a_server_that_checks_the_form_of_handles_takes_those_of_other_groups_for_the_same_time(
    later: float, rules: list[str]
) -> None:
    """A handle names the time of its receive, and not the group."""
    story = sent().receive("m", handle="other", group="other").at(later).receive("m", handle="own")
    story.ack("m", entries=(("m", "other"),)).lag(0, 0).at(60).drained()
    assert story.rules(APACHE) == rules


def test_polls_of_dead_clients_leave_the_state_of_messages_open() -> None:
    story = Story(type_="PRIORITY", queues=2).receive(is_cut=True, code="").gone(crashed=True)
    story.send("m", priority=0).send("n", priority=1).lag(0, 1).receive("m", "n", priorities=(0, 1))
    assert story.rules(APACHE) == []
    assert {*story.rules(DOCUMENTED)} == {"lag", "priority"}


def test_a_message_whose_changes_left_leases_behind_may_be_given_up_by_any_poll() -> None:
    """Each lease that a change leaves behind counts for itself, and a poll that gives a message up ends at once."""
    story = (
        Story().send("m").send("n").receive("m", "n").ack("m").change("n", 5).at(5).receive("n", attempt=2)
    )
    story.receive(poll=5.0)
    assert story.rules(DOCUMENTED) == ["poll"]
    assert story.rules(APACHE) == []


def test_a_slow_machine_ends_polls_late() -> None:
    story = Story().at(7.5).receive(begun=0.0)
    assert story.rules(DOCUMENTED) == ["poll"]
    assert story.rules(DOCUMENTED.slower(0.8)) == []


def test_parked_polls_may_miss_a_reset_as_declared() -> None:
    story = sent().reset(to_end=True).reset(to_end=False).at(8).receive("m", begun=0.0, poll=8.0, stored=0.0)
    # The poll was parked before the resets.
    story.events[-1] = replace(story.events[-1], begun=story.events[2].ended)
    assert story.rules(DOCUMENTED) == ["wake"]
    assert story.rules(APACHE) == []


def test_a_delivery_during_a_reset_may_be_of_before_it() -> None:
    """Then the reset makes the message visible once more, as a first delivery."""
    story = sent().reset(to_end=False).receive("m").at(20).receive("m", attempt=1)
    assert story.rules(APACHE) == story.rules(DOCUMENTED) == ["attempt"]
    reset, received = story.events[-3:-1]
    story.events[-3] = replace(reset, ended=received.ended)
    assert story.rules(APACHE) == story.rules(DOCUMENTED) == []


@pytest.mark.parametrize("call", ["change", "forward"])
def test_a_call_that_overlaps_one_with_the_same_handle_may_be_refused(call: str) -> None:
    """A request that a proxy has doubled: the copy may be refused before the first one has its response."""

    def story(code: str, *, overlaps: bool) -> list[str]:
        begun = leased()
        arguments = ("m", 20.0) if call == "change" else ("m",)
        getattr(begun, call)(*arguments, code=code)
        first = begun.events.pop()
        begun.handles["m"] = first.handle
        getattr(begun.at(1), call)(*arguments, code=INVALID)
        if not overlaps:
            begun.events.append(replace(first, begun=begun.instant(), ended=begun.instant()))
        else:
            begun.events.append(replace(first, ended=begun.instant()))
        return begun.rules()

    assert story("OK", overlaps=True) == []
    assert story("OK", overlaps=False) == [call]
    assert story(INVALID, overlaps=True) == [call, call]


def test_a_server_that_takes_a_decision_again_stores_the_message_again() -> None:
    story = Story(type_="TRANSACTION").send("m").end("m").receive("m").receive("m")
    assert "lease" in story.rules(APACHE)
    story = Story(type_="TRANSACTION").send("m").end("m").end("m").receive("m").receive("m")
    assert story.rules(APACHE) == []


def placed(story: Story) -> Story:
    """Let the messages of the last receive lie one behind the other."""
    receive = story.events[-1]
    assert isinstance(receive, Receive)
    story.events[-1] = replace(
        receive, deliveries=tuple(replace(one, offset=place) for place, one in enumerate(receive.deliveries))
    )
    return story


def batch(ordered: bool = False) -> Story:
    """Two messages of one queue, received at once; the lease of the second one is changed."""
    kind = "FIFO" if ordered else "NORMAL"
    return placed(sent("m", "n", type_=kind, ordered=ordered).receive("m", "n")).change("n", 20.0)


def test_an_ack_with_a_changed_handle_may_reach_only_the_first_message_as_declared() -> None:
    again = batch().ack("m", "n").at(40).receive("n", attempt=2, place=(0, 1))
    assert "settled" in again.rules(DOCUMENTED)
    assert again.rules(APACHE) == []
    first = batch().ack("m", "n").at(40).receive("m", attempt=2, place=(0, 0))
    ordered = batch(ordered=True).ack("m", "n").at(40).receive("n", attempt=2, place=(0, 1))
    assert "settled" in first.rules(APACHE)
    assert "settled" in ordered.rules(APACHE)


@pytest.mark.parametrize(("trims", "rules"), [(False, ["empty", "lost"]), (True, [])])
def test_a_new_group_may_miss_all_but_the_last_message_of_a_trimmed_queue_as_declared(
    trims: bool, rules: list[str]
) -> None:
    """Servers start it at the end of a queue that has lost its first messages, also long ago."""
    story = sent().at(9)
    if trims:
        story.trim(20)
    story.group("late").at(14).receive(group="late", begun=9).at(60).drained(group="late")
    assert story.rules(APACHE) == rules


def test_a_server_that_reads_by_hashes_may_give_up_what_it_never_delivered() -> None:
    """`Aa` and `BB` have one hash; what is dropped in an ordered group is read again behind a gap, and counts."""
    story = Story(type_="FIFO", ordered=True, limit=1).send("m", tag="Aa").send("n", tag="BB")
    story.receive("m", filter=tags("Aa")).at(13).group("readers").receive(
        "n", topic="%DLQ%group", group="readers"
    )
    assert "dead letter" in story.rules(DOCUMENTED)
    assert "dead letter" not in story.rules(APACHE)


def test_a_group_that_acknowledged_with_the_handle_of_another_one_has_read_nothing() -> None:
    story = Story(type_="FIFO", ordered=True).send("m").receive("m", handle="other", group="other")
    story.ack("m", entries=(("m", "other"),)).group("readers").drained("%DLQ%group", "readers")
    assert story.rules(APACHE) == []


def test_a_server_that_locks_queues_redelivers_only_what_lies_behind_a_gap() -> None:
    def taken() -> Story:
        return placed(sent("m", "n", type_="FIFO", ordered=True).receive("m", "n"))

    gap = placed(taken().ack("n").at(13).receive("m", "n", attempt=2))
    assert gap.rules(APACHE) == []
    assert "settled" in gap.rules(DOCUMENTED)
    in_order = taken().ack("m").ack("n").at(13).receive("n", attempt=2, place=(0, 1))
    assert "settled" in in_order.rules(APACHE)
    head = taken().at(1).receive("m", attempt=2, place=(0, 0))
    assert "lease" in head.rules(APACHE)
    following = taken().ack("m").at(1).receive("n", attempt=2, place=(0, 1))
    assert "lease" in following.rules(APACHE)
