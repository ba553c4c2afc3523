"""Tag and SQL92 filters of receives, inventory 4.14.

Everything is sent to one queue and closed by a sentinel that the filter accepts: when it is delivered, all messages
before it were filtered, so no case has to wait for a quiet window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.consumer import Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe.answers import code_name, code_of
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW
from aiorocketmq_conformance.verdicts import NotApplicable

SQL = ("filter.sql",)
LAST = {"last": "yes"}
"""Properties of a sentinel that passes an SQL filter."""


def sql(text: str) -> pb.FilterExpression:
    """Return an SQL filter."""
    return pb.FilterExpression(type=pb.FilterType.SQL, expression=text)


async def _sent(fixture: Fixture, topic: str, *tags: str | None) -> list[Sent]:
    """Return one message for each tag, with its tag as body."""
    return list(
        await asyncio.gather(
            *(fixture.send_message(fixture.message(topic, tag or "untagged", tag=tag)) for tag in tags)
        )
    )


async def _tags_found(fixture: Fixture, expression: str, sentinel: str, *tags: str | None) -> list[str]:
    """Return the bodies of those messages with the given tags that a tag expression accepts."""
    topic, consumer = await fixture.subscribed(1, expression=expression)
    await _sent(fixture, topic, *tags)
    others = await fixture.sentinel(consumer, sentinel={"tag": sentinel})
    return sorted(one.message.body.decode() for one in others)


@case("filter.tag-one", rules=("R5.21", "R5.23"))
async def tag_one(fixture: Fixture) -> None:
    """A subscription to one tag receives exactly the messages with that tag."""
    assert await _tags_found(fixture, "a", "a", *"ab" * 10) == ["a"] * 10


@case("filter.tag-or", rules=("R5.23",))
async def tag_or(fixture: Fixture) -> None:
    """`a || b` receives the messages of both tags and no others."""
    assert await _tags_found(fixture, "a || b", "a", *"abc" * 10) == ["a"] * 10 + ["b"] * 10


@case("filter.tag-or-unused", rules=("R5.23",))
async def tag_or_unused(fixture: Fixture) -> None:
    """A tag in the list that no message has does not affect the others."""
    assert await _tags_found(fixture, "a || b", "b", *"a" * 10) == ["a"] * 10


@case("filter.tag-all", rules=("R5.23",), params={"star": "*", "empty": ""})
async def tag_all(fixture: Fixture, expression: str) -> None:
    """The expression for everything ({}) also selects messages without a tag."""
    assert await _tags_found(fixture, expression, "a", "a", "b", None) == ["a", "b", "untagged"]


@case("filter.tag-none-match", rules=("R5.21",))
async def tag_none_match(fixture: Fixture) -> None:
    """A subscription receives nothing if all messages have another tag."""
    assert await _tags_found(fixture, "b", "b", *"a" * 10) == []


@case("filter.tag-untagged", rules=("R5.23",))
async def tag_untagged(fixture: Fixture) -> None:
    """A subscription to a tag does not receive messages without one."""
    assert await _tags_found(fixture, "a", "a", None, None) == []


@case("filter.tag-hash-collision", rules=("R5.23",))
async def tag_hash_collision(fixture: Fixture) -> None:
    """Messages with a different tag of the same 32-bit hash are not delivered."""
    assert await _tags_found(fixture, "BB", "BB", *["BB", "Aa"] * 10) == ["BB"] * 10


@case("filter.tag-case", rules=("R5.23",))
async def tag_case(fixture: Fixture) -> None:
    """Tags are case-sensitive."""
    assert await _tags_found(fixture, "BB", "BB", "bb", "BB", "Bb") == ["BB"]


@case("filter.tag-no-substring", rules=("R5.23",))
async def tag_no_substring(fixture: Fixture) -> None:
    """A tag matches as a whole, not as a substring."""
    assert await _tags_found(fixture, "ab", "ab", "a", "b", "abc", "ab") == ["ab"]


@case(
    "filter.tag-spaces", rules=("R5.23",), params={"around": " a || b ", "none": "a||b", "many": "a   ||\tb"}
)
async def tag_spaces(fixture: Fixture, expression: str) -> None:
    """Blanks around the tags of a list ({}) are ignored."""
    assert await _tags_found(fixture, expression, "a", "a", "b", "c") == ["a", "b"]


@case("filter.tag-empty-terms", rules=("R5.23",), level=SHOULD)
async def tag_empty_terms(fixture: Fixture) -> None:
    """Empty elements of a tag list are ignored: they select neither everything nor messages without a tag."""
    assert await _tags_found(fixture, "a||||b", "b", "a", "b", "c", None) == ["a", "b"]


@case("filter.tag-long", rules=("R5.23",), level=SHOULD)
async def tag_long(fixture: Fixture) -> None:
    """A tag of 1 KiB is matched like a short one."""
    long = "t" * 1023
    assert await _tags_found(fixture, long + "1", long + "1", long + "1", long + "2") == [long + "1"]


@case("filter.tag-star-literal", rules=("R5.23",), level=SHOULD)
async def tag_star_literal(fixture: Fixture) -> None:
    """A message tagged `*` is selected by its tag only."""
    assert await _tags_found(fixture, "x", "x", "*", "x") == ["x"]


@case("filter.tag-illegal-sub", rules=("R5.23",), level=SHOULD)
async def tag_illegal_sub(fixture: Fixture) -> None:
    """A receive with a tag expression without tags is refused."""
    topic, consumer = await fixture.subscribed(1)
    await _sent(fixture, topic, "a", None)
    answer = await consumer.receive(expression="||")
    assert code_name(answer.code) == "ILLEGAL_FILTER_EXPRESSION"
    assert not answer.deliveries


@case("filter.tag-per-group", rules=("R5.21",))
async def tag_per_group(fixture: Fixture) -> None:
    """Two groups with different tags each receive their own messages."""
    topic = await fixture.topic(1)
    of_a = await fixture.consumer(topic, expression="a")
    of_b = await fixture.consumer(topic, expression="b")
    sent = await _sent(fixture, topic, *"ab" * 10)
    for consumer, tag in ((of_a, "a"), (of_b, "b")):
        deliveries = await consumer.take(10)
        assert {one.message.system_properties.tag for one in deliveries} == {tag}
        others = await fixture.sentinel(consumer, sentinel={"tag": tag})
        once_each([one for one in sent if one.message.system_properties.tag == tag], [*deliveries, *others])


@case("filter.skipped-not-returned", rules=("R5.21",), timeout=90.0)
async def skipped_not_returned(fixture: Fixture) -> None:
    """Filtered messages count as consumed by the group: a later receive of everything does not return them."""
    topic, consumer = await fixture.subscribed(1, expression="a")
    await _sent(fixture, topic, *"b" * 10)
    assert await fixture.sentinel(consumer, sentinel={"tag": "a"}) == []
    later = await fixture.consumer(topic, group=consumer.group, prime=False)
    await fixture.expect_nothing(later, QUIET_WINDOW, "delivered after the filter had rejected it")


@case("filter.no-slot-waste", rules=("R5.11", "R5.12"), level=SHOULD, needs=("batch-send",))
async def no_slot_waste(fixture: Fixture) -> None:
    """One message after 2,000 rejected ones is delivered in time."""
    topic, consumer = await fixture.subscribed(1, expression="a")
    producer = await fixture.producer(topic)
    for _ in range(20):
        batch = [fixture.message(topic, "b", tag="b") for _ in range(100)]
        answer = await producer.send(*batch)
        assert answer.status.code == pb.Code.OK, f"a batch was answered with {code_of(answer)}"
    (matching,) = await _sent(fixture, topic, "a")
    (delivery,) = await consumer.take(1, within=PROMPT)
    assert delivery.id == matching.id


# SQL92


async def _send_all(fixture: Fixture, topic: str, messages: dict[str, dict[str, str]], **fields: str) -> None:
    await asyncio.gather(
        *(
            fixture.send_message(fixture.message(topic, name, properties=properties, **fields))
            for name, properties in messages.items()
        )
    )


async def _select(fixture: Fixture, consumer: Consumer, text: str) -> list[str]:
    """Return the bodies of the messages sent so far that an SQL expression accepts."""
    # First, so that a server that drops a message at a failed comparison has accepted the sentinel before.
    expression = sql(f"last = 'yes' OR ({text})")
    others = await fixture.sentinel(consumer, sentinel={"properties": LAST}, expression=expression)
    return sorted(one.message.body.decode() for one in others)


async def _selected(fixture: Fixture, text: str, messages: dict[str, dict[str, str]]) -> list[str]:
    topic, consumer = await fixture.subscribed(1)
    await _send_all(fixture, topic, messages)
    return await _select(fixture, consumer, text)


def _numbered(count: int) -> dict[str, dict[str, str]]:
    return {f"{number:02}": {"n": str(number)} for number in range(count)}


def _names(numbers: Iterable[int]) -> list[str]:
    return [f"{number:02}" for number in numbers]


@case("filter.sql-between", rules=("R5.25",), level=SHOULD, needs=SQL)
async def sql_between(fixture: Fixture) -> None:
    """BETWEEN 5 AND 9 includes both bounds."""
    assert await _selected(fixture, "n BETWEEN 5 AND 9", _numbered(20)) == _names(range(5, 10))


@case(
    "filter.sql-compare",
    rules=("R5.25",),
    level=SHOULD,
    needs=SQL,
    params={
        ">": (">", [3, 4]),
        ">=": (">=", [2, 3, 4]),
        "<": ("<", [0, 1]),
        "<=": ("<=", [0, 1, 2]),
        "=": ("=", [2]),
        "<>": ("<>", [0, 1, 3, 4]),
    },
)
async def sql_compare(fixture: Fixture, row: tuple[str, list[int]]) -> None:
    """A number in a property is compared by {} as a number."""
    operator, expected = row
    messages = {f"{index:02}": {"price": price} for index, price in enumerate(["8", "9", "10", "11", "100"])}
    assert await _selected(fixture, f"price {operator} 10", messages) == _names(expected)


@case(
    "filter.sql-null",
    rules=("R5.25",),
    level=SHOULD,
    needs=SQL,
    params={"is": ("x IS NULL", ["without"]), "is-not": ("x IS NOT NULL", ["with"])},
)
async def sql_null(fixture: Fixture, row: tuple[str, list[str]]) -> None:
    """IS NULL and IS NOT NULL ({}) test whether a message has a property."""
    text, expected = row
    assert await _selected(fixture, text, {"with": {"x": "1"}, "without": {"y": "1"}}) == expected


@case(
    "filter.sql-in",
    rules=("R5.25",),
    level=SHOULD,
    needs=SQL,
    params={"in": ("r IN ('hz', 'sh')", ["hz", "sh"]), "not-in": ("r NOT IN ('hz', 'sh')", ["bj"])},
)
async def sql_in(fixture: Fixture, row: tuple[str, list[str]]) -> None:
    """IN and NOT IN ({}) compare texts; a missing property matches neither."""
    text, expected = row
    messages = {"hz": {"r": "hz"}, "sh": {"r": "sh"}, "bj": {"r": "bj"}, "none": {}}
    assert await _selected(fixture, text, messages) == expected


@case("filter.sql-and-or-not", rules=("R5.25",), level=SHOULD, needs=SQL)
async def sql_and_or_not(fixture: Fixture) -> None:
    """AND binds tighter than OR, parentheses tightest, and NOT negates what is in them."""
    messages = {
        f"{a}{b}{c}": {"a": str(a), "b": str(b), "c": str(c)} for a in (0, 1) for b in (0, 1) for c in (0, 1)
    }
    topic = await fixture.topic(1)
    consumers = [await fixture.consumer(topic) for _ in range(3)]
    await _send_all(fixture, topic, messages)
    rows = {
        "a = 1 OR b = 1 AND c = 1": ["011", "100", "101", "110", "111"],
        "(a = 1 OR b = 1) AND c = 1": ["011", "101", "111"],
        "NOT (a = 1 AND (b = 0 OR c = 0)) AND a = 1": ["111"],
    }
    for consumer, (text, expected) in zip(consumers, rows.items(), strict=True):
        names = await _select(fixture, consumer, text)
        assert [name for name in names if name != "sentinel"] == expected, text


@case("filter.sql-unknown-prop", rules=("R5.25",), level=SHOULD, needs=SQL)
async def sql_unknown_prop(fixture: Fixture) -> None:
    """A comparison with a missing property is never true, with or without NOT."""
    for text in ("zz = 1", "zz <> 1", "NOT (zz = 1)", "zz NOT BETWEEN 1 AND 2"):
        assert await _selected(fixture, text, _numbered(10)) == [], text


@case("filter.sql-type-clash", rules=("R5.25",), level=SHOULD, needs=SQL)
async def sql_type_clash(fixture: Fixture) -> None:
    """A text compared as a number excludes its message and no other."""
    messages = {"01": {"price": "30"}, "02": {"price": "much"}, "03": {"price": "10"}, "04": {"price": "21"}}
    assert await _selected(fixture, "price > 20", messages) == ["01", "04"]


@case("filter.sql-float-int", rules=("R5.25",), level=INFORMATIONAL, needs=SQL)
async def sql_float_int(fixture: Fixture) -> None:
    """Whether a decimal number compared with an integer excludes the message, or is compared, is recorded."""
    names = await _selected(fixture, "f > 1", {"decimal": {"f": "1.5"}, "whole": {"f": "2"}})
    fixture.note("decimal", "compared" if "decimal" in names else "dropped")
    assert "whole" in names


@case("filter.sql-numbers", rules=("R5.25",), level=SHOULD, needs=SQL)
async def sql_numbers(fixture: Fixture) -> None:
    """Beside a whole number a text must be one, beside a decimal number or another text any number; others match
    nothing."""
    texts = (
        "2",
        "02",
        "+2",
        "-2",
        "2.0",
        "2.5",
        "2.50",
        "25e-1",
        ".5",
        "2,5",
        " 2",
        "two",
        "9223372036854775807",
    )
    rows = {
        "n = 2": ["+2", "02", "2"],
        "n > -3 AND n < 2": ["-2"],
        "n = 2.5": ["2.5", "2.50", "25e-1"],
        "n <= 1.5": ["-2", ".5"],
        "n >= 2.5": ["2.5", "2.50", "25e-1", "9223372036854775807"],
        "n = 9223372036854775807": ["9223372036854775807"],
        "n BETWEEN 1.5 AND 2.25": [" 2", "+2", "02", "2", "2.0"],
        "n > ten": ["9223372036854775807"],
    }
    topic = await fixture.topic(1)
    consumers = [await fixture.consumer(topic) for _ in rows]
    await _send_all(fixture, topic, {text: {"n": text, "ten": "10"} for text in texts})
    for consumer, (text, expected) in zip(consumers, rows.items(), strict=True):
        names = await _select(fixture, consumer, text)
        assert [name for name in names if name != "sentinel"] == sorted(expected), text


@case("filter.sql-true", rules=("R5.25",), level=SHOULD, needs=SQL)
async def sql_true(fixture: Fixture) -> None:
    """TRUE selects everything, including messages without properties."""
    assert await _selected(fixture, "TRUE", {**_numbered(10), "none": {}}) == [*_names(range(10)), "none"]


@case("filter.sql-tags", rules=("R5.25",), level=SHOULD, needs=SQL)
async def sql_tags(fixture: Fixture) -> None:
    """The tag is the property TAGS, all keys together are KEYS, the id is UNIQ_KEY."""
    topic = await fixture.topic(1)
    rows = (
        "TAGS = 'a'",
        "KEYS = 'k1 k2'",
        "UNIQ_KEY = '{}'",
        "TAGS IS NULL",
        "KEYS IS NULL",
        "UNIQ_KEY IS NULL",
    )
    consumers = [await fixture.consumer(topic) for _ in rows]
    found, *_ = await _sent(fixture, topic, "a", "b", None)
    await fixture.send(topic, "keys", keys=["k1", "k2"], tag="c")
    others = ["a", "b", "keys", "untagged"]
    expected: tuple[list[str], ...] = (["a"], ["keys"], ["a"], ["untagged"], ["a", "b", "untagged"], [])
    for consumer, text, bodies in zip(consumers, rows, expected, strict=True):
        names = await _select(fixture, consumer, text.format(found.id))
        assert [name for name in names if name in others] == bodies, text


@case("filter.sql-text", rules=("R5.25",), level=SHOULD, needs=SQL)
async def sql_text(fixture: Fixture) -> None:
    """CONTAINS, STARTSWITH and ENDSWITH look into texts, and their NOT selects the other ones that are there."""
    messages = {text: {"s": text} for text in ("ab", "xab", "abx", "xabx", "aB", "ba")} | {"none": {}}
    topic = await fixture.topic(1)
    rows = {
        "s CONTAINS 'ab'": ["ab", "abx", "xab", "xabx"],
        "s STARTSWITH 'ab'": ["ab", "abx"],
        "s ENDSWITH 'ab'": ["ab", "xab"],
        "s NOT CONTAINS 'ab'": ["aB", "ba"],
        "s NOT STARTSWITH 'ab'": ["aB", "ba", "xab", "xabx"],
        "s NOT ENDSWITH 'ab'": ["aB", "abx", "ba", "xabx"],
        # A property alone is never true.
        "s": [],
        "NOT (s)": ["aB", "ab", "abx", "ba", "xab", "xabx"],
    }
    consumers = [await fixture.consumer(topic) for _ in rows]
    await _send_all(fixture, topic, messages)
    for consumer, (text, expected) in zip(consumers, rows.items(), strict=True):
        names = await _select(fixture, consumer, text)
        assert [name for name in names if name != "sentinel"] == expected, text


@case("filter.sql-string-case", rules=("R5.25",), level=SHOULD, needs=SQL)
async def sql_string_case(fixture: Fixture) -> None:
    """Texts and property names are case-sensitive, keywords are not."""
    messages = {"Hz": {"r": "Hz"}, "hz": {"r": "hz"}, "R": {"R": "Hz"}}
    assert await _selected(fixture, "r = 'Hz' and true", messages) == ["Hz"]


@case(
    "filter.sql-illegal",
    rules=("R5.25",),
    level=SHOULD,
    needs=SQL,
    params={"syntax": "a = = 1", "operator": "a != 1", "open": "(a = 1", "empty": ""},
)
async def sql_illegal(fixture: Fixture, text: str) -> None:
    """A receive with an invalid expression ({}) is refused."""
    topic, consumer = await fixture.subscribed(1)
    await _send_all(fixture, topic, {"one": {"a": "1"}, "none": {}})
    answer = await consumer.receive(expression=sql(text))
    assert not answer.deliveries, "delivered as if there were no filter"
    expected = fixture.numbers["receive.illegal-sql"] if text else "ILLEGAL_FILTER_EXPRESSION"
    assert code_name(answer.code) == expected


@case("filter.sql-ordered", rules=("R5.25", "R8.18"), level=SHOULD, needs=(*SQL, "type.fifo"))
async def sql_ordered(fixture: Fixture) -> None:
    """An ordered group receives selected messages in order, and rejected ones do not block it."""
    topic = await fixture.topic(1, type="FIFO")
    rows = {"n BETWEEN 5 AND 9": range(5, 10), "zz = 1": range(0), "TRUE": range(20)}
    consumers = [await fixture.consumer(topic, ordered=True) for _ in rows]
    for name, properties in _numbered(20).items():
        await fixture.send_message(fixture.message(topic, name, properties=properties, group="g"))
    for consumer, (text, expected) in zip(consumers, rows.items(), strict=True):
        expression = sql(f"last = 'yes' OR ({text})")
        others = await fixture.sentinel(
            consumer, sentinel={"properties": LAST, "group": "g"}, expression=expression
        )
        bodies = [one.message.body.decode() for one in others]
        assert [name for name in bodies if name != "sentinel"] == _names(expected), text


@case("filter.sql-absent", rules=("R5.25",), level=SHOULD)
async def sql_absent(fixture: Fixture) -> None:
    """A server without SQL filters refuses them; it does not deliver everything."""
    if fixture.target.has("filter.sql"):
        raise NotApplicable("this target serves SQL filters")
    topic, consumer = await fixture.subscribed(1)
    await _send_all(fixture, topic, {"one": {"a": "1"}, "none": {}})
    answer = await consumer.receive(expression=sql("a = 2"))
    assert not answer.deliveries, "delivered as if there were no filter"
    assert answer.code not in {pb.Code.OK, pb.Code.MESSAGE_NOT_FOUND}
