"""Cores that break promises about filters."""

from __future__ import annotations

import re
from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker, Parts
from aiorocketmq_fake.core.commands.receiving import ReceivePoll, Receiving, Taken
from aiorocketmq_fake.core.records.consumption import Consumption
from aiorocketmq_fake.core.values.codes import FilterType, Refusal
from aiorocketmq_fake.core.values.model import (
    FilterExpression,
    OutgoingMessage,
    Parked,
    PullRequest,
    Received,
    ReceiveRequest,
)
from aiorocketmq_fake.core.values.placement import java_hash

from conformance.tests.mutants.mutant import SESSION, Mutant
from conformance.tests.mutants.pull import TamperingPulls
from conformance.tests.mutants.tampering import Tampering


class OtherExpressions(Tampering, TamperingPulls):
    """Expressions are replaced by others before they are parsed, including those of pulls."""

    def __init__(self, *args: object, **named: object) -> None:
        super().__init__(*args, **named)  # type: ignore[arg-type]  # handed through as they are
        self._tags: set[str] = set()

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        self._tags.add(message.tag)
        return message

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        return replace(request, filter=self._other(request.filter))

    def pulling(self, request: PullRequest) -> PullRequest:
        return replace(request, filter=self._other(request.filter))

    def _other(self, expression: FilterExpression) -> FilterExpression:
        text = expression.expression
        other = self.sql(text) if expression.type is FilterType.SQL else self.tags(text)
        return replace(expression, expression=other)

    def sql(self, text: str) -> str:
        """Return the expression to parse instead of an SQL expression."""
        return text

    def tags(self, text: str) -> str:
        """Return the expression to parse instead of a tag expression."""
        if text in ("", "*"):
            return text
        selected = [tag.strip() for tag in text.split("||")]
        also = [tag for tag in self._tags if any(one and self.matches(one, tag) for one in selected)]
        return " || ".join([*selected, *also])

    def matches(self, wanted: str, tag: str) -> bool:
        """Return whether a message's tag matches a selected one."""
        return False


class TagsByHash(OtherExpressions):
    """Tags are compared by their hash alone."""

    def matches(self, wanted: str, tag: str) -> bool:
        return java_hash(wanted) == java_hash(tag)


class TagsByPart(OtherExpressions):
    """A tag that contains the selected one matches."""

    def matches(self, wanted: str, tag: str) -> bool:
        return wanted in tag


class TagsInAnyCase(OtherExpressions):
    """Tags are compared without their case."""

    def matches(self, wanted: str, tag: str) -> bool:
        return wanted.lower() == tag.lower()


class TagsByStart(OtherExpressions):
    """Only the first thousand characters of tags are compared."""

    def matches(self, wanted: str, tag: str) -> bool:
        return wanted[:1000] == tag[:1000]


class StarTagForAll(OtherExpressions):
    """A message tagged `*` matches every filter."""

    def matches(self, wanted: str, tag: str) -> bool:
        return tag == "*"


class FirstTagOnly(OtherExpressions):
    """Only the first tag of a list is used."""

    def tags(self, text: str) -> str:
        return text.partition("||")[0]


class LastTagOnly(OtherExpressions):
    """Only the last tag of a list is used."""

    def tags(self, text: str) -> str:
        return text.rpartition("||")[2]


class EmptyTagForAll(OtherExpressions):
    """An empty element in a list of tags selects everything."""

    def tags(self, text: str) -> str:
        return "*" if "" in [tag.strip() for tag in text.split("||")] else text


class UntaggedNeverMeant(OtherExpressions):
    """Messages without tag are not delivered."""

    def tags(self, text: str) -> str:
        return " || ".join(self._tags - {""}) or "nothing" if text in ("", "*") else text


class UnknownIsTrue(OtherExpressions):
    """Unknown in SQL counts as true."""

    def sql(self, text: str) -> str:
        return f"({text}) OR ({text}) IS NULL" if text else text


class BetweenWithoutEnds(OtherExpressions):
    """BETWEEN excludes its bounds."""

    def sql(self, text: str) -> str:
        return re.sub(r"(\w+) BETWEEN (\d+) AND (\d+)", r"\1 > \2 AND \1 < \3", text)


class NumbersAsTexts(OtherExpressions):
    """Numbers are compared as texts are."""

    def sql(self, text: str) -> str:
        return re.sub(r"(=|<>) (\d+)", r"\1 '\2'", re.sub(r"(<|>)=? (\d+)", r"\1 \g<2>0", text))


class SqlAcceptsNothing(OtherExpressions):
    """SQL expressions accept nothing but the sentinel."""

    def sql(self, text: str) -> str:
        return text and "last = 'yes'"


class SqlAcceptsAll(OtherExpressions):
    """SQL expressions accept everything."""

    def sql(self, text: str) -> str:
        return "TRUE"


class SqlInAnyCase(OtherExpressions):
    """Texts in SQL are compared without their case."""

    def sql(self, text: str) -> str:
        return re.sub(r"(\w+) = '(Hz)'", r"\1 IN ('Hz', 'hz')", text)


class SqlFromRightToLeft(OtherExpressions):
    """OR binds tighter than AND."""

    def sql(self, text: str) -> str:
        return re.sub(r"(\w = 1 OR \w = 1) AND (\w = 1)", r"(\1) AND \2", text)


class IllegalMeansAll(Broker):
    """An invalid filter selects everything."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        try:
            return super().receive(request, now=now)
        except Refusal:
            return super().receive(replace(request, filter=FilterExpression()), now=now)


class RejectedComeBack(Tampering):
    """Rejected messages are kept for later receives."""

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        return replace(request, filter=FilterExpression())

    def handed(self, request: ReceiveRequest, answer: Received) -> Received:
        expression = request.filter.expression
        kept = [one for one in answer.deliveries if expression in ("*", one.message.content.tag)]
        rejected = [one.receipt_handle for one in answer.deliveries if one not in kept]
        self.release_deliveries(tuple(rejected), now=self.now)
        return replace(answer, deliveries=tuple(kept))


class RejectedBlock(Receiving):
    """A rejected message blocks its queue."""

    def take(self, poll: ReceivePoll, consumption: Consumption, limit: int) -> Taken:
        for queue in consumption.topic.readable:
            message = queue.get(consumption.position(queue))
            if message is not None and poll.filter is not None and not poll.filter.selects(message):
                return []
        return super().take(poll, consumption, limit)


class OneFilterForAll(Tampering):
    """All groups use the filter of the first receive."""

    _first: FilterExpression | None = None

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        self._first = self._first or request.filter
        return replace(request, filter=self._first)


FILTERING = (
    Mutant("MU61", ("filter.tag-hash-collision",), core=TagsByHash),
    Mutant("MU62", ("filter.tag-no-substring", "pull.filter-tags[part]"), core=TagsByPart),
    Mutant("MU63", ("filter.tag-case", "pull.filter-tags[other-case]"), core=TagsInAnyCase),
    Mutant("mu-tags-cut", ("filter.tag-long",), core=TagsByStart),
    Mutant("mu-star-for-all", ("filter.tag-star-literal",), core=StarTagForAll),
    Mutant("MU64", ("filter.tag-or", "filter.tag-spaces*", "pull.filter-tags[two]"), core=FirstTagOnly),
    Mutant("mu-last-tag-only", ("filter.tag-or-unused",), core=LastTagOnly),
    Mutant("mu-empty-tag-for-all", ("filter.tag-empty-terms",), core=EmptyTagForAll),
    Mutant(
        "mu-untagged-never",
        (
            "filter.tag-all*",
            "pull.filter-tags[star]",
            "pull.filter-tags[empty]",
            "pull.filter-sql[illegal]",
        ),
        core=UntaggedNeverMeant,
        spares=SESSION,
    ),
    Mutant("mu-one-filter-for-all", ("filter.tag-per-group",), core=OneFilterForAll),
    Mutant("mu-rejected-come-back", ("filter.skipped-not-returned",), core=RejectedComeBack),
    Mutant("MU68", ("filter.no-slot-waste",), parts=Parts(receiving=RejectedBlock)),
    Mutant(
        "MU66",
        ("filter.sql-unknown-prop", "filter.sql-in*", "filter.sql-type-clash", "pull.filter-sql[unknown]"),
        core=UnknownIsTrue,
    ),
    Mutant(
        "MU67",
        ("filter.sql-between", "filter.sql-ordered", "pull.filter-sql[between]"),
        core=BetweenWithoutEnds,
    ),
    Mutant(
        "mu-sql-numbers-as-texts", ("filter.sql-compare[<]", "filter.sql-compare[>*"), core=NumbersAsTexts
    ),
    Mutant(
        "mu-sql-accepts-nothing",
        (
            "filter.sql-true",
            "filter.sql-tags",
            "filter.sql-text",
            "filter.sql-numbers",
            "filter.sql-null*",
            "filter.sql-in*",
            "filter.sql-compare*",
        ),
        core=SqlAcceptsNothing,
    ),
    Mutant(
        "mu-sql-accepts-all",
        (
            "filter.sql-null*",
            "filter.sql-tags",
            "filter.sql-compare*",
            "filter.sql-illegal*",
            "pull.filter-sql[compare]",
            "pull.filter-sql[and]",
            "pull.filter-sql[none]",
            "pull.declared-sql",
        ),
        core=SqlAcceptsAll,
    ),
    Mutant("mu-sql-any-case", ("filter.sql-string-case",), core=SqlInAnyCase),
    Mutant("mu-sql-or-first", ("filter.sql-and-or-not",), core=SqlFromRightToLeft),
    Mutant(
        "mu-illegal-filter-means-all", ("filter.tag-illegal-sub", "filter.sql-illegal*"), core=IllegalMeansAll
    ),
)
