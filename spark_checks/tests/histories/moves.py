"""Messages that are read from queues again, as these have moved to another member, or their member has come back."""

from __future__ import annotations

from spark_checks.tests.histories.book import history
from spark_checks.tests.histories.history import History
from spark_checks.tests.histories.queues import assign, pushed, shared

RETRIES = "%RETRY%g"


@history("a queue moves, and what was not committed is read again", ("INV-ATTEMPT", "exempted"))
def _(h: History) -> None:
    assign(h, "c1", 0, 0, **shared())
    pushed(h, "/0", 40)
    assign(h, "c1", 41, **shared())
    assign(h, "c2", 41, 0, **shared())
    pushed(h, "/0", 42, client_id="c2")


@history("a queue has a second owner when its messages are read again", ("INV-ATTEMPT", "exempted"))
def _(h: History) -> None:
    assign(h, "c2", 10.1, 0, **shared())
    pushed(h, "/0", 40)
    pushed(h, "/0", 41, client_id="c2")


@history("a queue moved long before its messages are read again", ("INV-ATTEMPT", "broken"))
def _(h: History) -> None:
    assign(h, "c2", 10, 0, **shared())
    pushed(h, "/0", 40)
    pushed(h, "/0", 41, client_id="c2")


@history("a queue moves after its messages were read again", ("INV-ATTEMPT", "broken"))
def _(h: History) -> None:
    pushed(h, "/0", 40)
    pushed(h, "/0", 41, client_id="c2")
    assign(h, "c2", 42, 0, **shared())


@history(
    "a queue moved once, and its messages are read three times",
    ("INV-ATTEMPT", "broken"),
    ("INV-ATTEMPT", "exempted"),
)
def _(h: History) -> None:
    pushed(h, "/0", 10)
    assign(h, "c2", 11, 0, **shared())
    pushed(h, "/0", 50, client_id="c2")
    pushed(h, "/0", 51, client_id="c3")


@history("another queue moves, and messages are read again", ("INV-ATTEMPT", "broken"))
def _(h: History) -> None:
    pushed(h, "/0", 40)
    assign(h, "c2", 41, 1, **shared())
    assign(h, "c2", 41, 0, topic="u", **shared())
    assign(h, "c2", 41, 0, group="another", **shared())
    pushed(h, "/0", 42, client_id="c2")


@history("a queue stays, and its messages are read again", ("INV-ATTEMPT", "broken"))
def _(h: History) -> None:
    assign(h, "c1", 0, 0, 1, **shared())
    pushed(h, "/0", 40)
    assign(h, "c1", 41, 0, **shared())
    pushed(h, "/0", 42, client_id="c2")


@history(
    "a member comes back, and reads again what it had not committed",
    ("INV-ATTEMPT", "exempted"),
    ("INV-PULL-ORD", "exempted"),
)
def _(h: History) -> None:
    assign(h, "c1", 0, 0, **shared())
    pushed(h, "/0", 40)
    assign(h, "c1", 41, 0, **shared() | {"epoch": 2})
    pushed(h, "/0", 42, epoch=2)


@history("who is handed messages takes no queue", ("INV-ATTEMPT", "broken"))
def _(h: History) -> None:
    pushed(h, "/0", 40)
    assign(h, "c2", 41, 0, **shared("message"))
    pushed(h, "/0", 42, client_id="c2")


@history("a queue moves, and a leased message comes again", ("INV-ATTEMPT", "broken"))
def _(h: History) -> None:
    h.deliver("/0", 10, role="push", hold=1)
    assign(h, "c2", 41, 0, **shared())
    h.deliver("/0", 42, role="push", client_id="c2", hold=1)


@history("retries move", ("INV-ATTEMPT", "exempted"))
def _(h: History) -> None:
    pushed(h, "/0", 40)
    pushed(h, "/0", 50, attempt=2)
    assign(h, "c2", 51, 0, topic=RETRIES, **shared())
    pushed(h, "/0", 52, attempt=2, client_id="c2")


@history("retries move, and a first attempt comes again", ("INV-ATTEMPT", "broken"))
def _(h: History) -> None:
    pushed(h, "/0", 40)
    pushed(h, "/0", 45, attempt=2)
    assign(h, "c2", 51, 0, topic=RETRIES, **shared())
    pushed(h, "/0", 52, client_id="c2")


@history("what was read twice is tried again twice", ("INV-ATTEMPT", "exempted"))
def _(h: History) -> None:
    pushed(h, "/0", 10)
    assign(h, "c2", 20, 0, **shared())
    pushed(h, "/0", 60, client_id="c2")
    for at in (100, 110):
        pushed(h, "/0", at, attempt=2, queue=7)


@history("what was read once is tried again twice", ("INV-ATTEMPT", "broken"))
def _(h: History) -> None:
    assign(h, "c1", 0, 0, **shared())
    pushed(h, "/0", 40)
    for at in (100, 110):
        pushed(h, "/0", at, attempt=2, queue=7)


@history("a queue moves when a retry is under way", ("INV-ATTEMPT", "exempted"))
def _(h: History) -> None:
    pushed(h, "/0", 10)
    assign(h, "c2", 20, 0, **shared())
    pushed(h, "/0", 60, attempt=2)
    pushed(h, "/0", 61, client_id="c2")


@history("members of a broadcast read the same, each for itself")
def _(h: History) -> None:
    for at, client in enumerate(("c1", "c2")):
        assign(h, client, at, 0, **shared("broadcast"))
        pushed(h, "/0", 40 + at, client_id=client)


@history("what is read from a queue is over with its handler, whatever its message group", ordered=True)
def _(h: History) -> None:
    for offset in range(3):
        pushed(h, f"x/{offset}", 40 + offset)
