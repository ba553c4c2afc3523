"""The parser: from the text of an expression to its tree, in time proportional to the text (5.6).

Operators from loose to tight: OR; AND; NOT; `=` `<>` IS; `<` `<=` `>` `>=` BETWEEN IN CONTAINS STARTSWITH ENDSWITH;
`+` `-`. Those of one level apply from left to right. On servers NOT binds like a sign instead.
"""

from __future__ import annotations

from math import isinf

from aiorocketmq_fake.core.filters.sql.comparison import LONG_MAX
from aiorocketmq_fake.core.filters.sql.nodes import (
    TRUTHS,
    Absent,
    All,
    Any,
    BareProperty,
    Equal,
    Holds,
    Literal,
    Negative,
    Node,
    Not,
    OneOf,
    Ordered,
    Property,
)
from aiorocketmq_fake.core.filters.sql.tokens import Kind, SqlError, Token, Tokens
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.sql_dialect import SqlDialect

_OR, _AND, _NOT, _EQUALITY, _COMPARISON, _SIGN = range(6)

_LEVELS = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "<>", "IS"), _EQUALITY),
    **dict.fromkeys(
        ("<", "<=", ">", ">=", "BETWEEN", "IN", "CONTAINS", "STARTSWITH", "ENDSWITH", "NOT"), _COMPARISON
    ),
}
_SIGNS = {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
_TESTS = {"CONTAINS": str.__contains__, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith}


def parse(text: str, dialect: SqlDialect) -> Node:
    """Parse an expression. SqlError if it is invalid, too long or nested too deeply."""
    if len(text) > limits.SQL_LENGTH_MAX:
        raise SqlError(f"it has {len(text)} characters, more than {limits.SQL_LENGTH_MAX}")
    return _Parser(Tokens(text, dialect), dialect).whole()


class _Parser:
    def __init__(self, tokens: Tokens, dialect: SqlDialect) -> None:
        self._tokens = tokens
        self._dialect = dialect
        self._depth = 0
        self._chained = 0

    def whole(self) -> Node:
        """Parse all of the text, or as much of it as the dialect requires."""
        node = self._truth(self._binary(_OR))
        # Checked in any case: an illegal character is refused even if the rest is ignored.
        rest = self._tokens.peek()
        if rest.kind is not Kind.END and not self._dialect.rest_is_ignored:
            raise self._tokens.unexpected("the end")
        return node

    # Operators between two operands

    def _binary(self, level: int) -> Node:
        """Parse operands joined by operators that bind at least as tight as `level`."""
        node = self._prefixed(level)
        operated = False
        while True:
            token = self._tokens.peek()
            if token.kind not in (Kind.KEYWORD, Kind.SYMBOL) or _LEVELS.get(token.text, -1) < level:
                return node
            if token.text in ("AND", "OR"):
                node = self._junction(node, token.text)
                continue
            # `a = b = c` nests `a = b`; the depth limit bounds such chains, too.
            self._chained += operated
            self._check_depth(self._chained)
            node = self._operation(node)
            operated = True

    def _junction(self, first: Node, word: str) -> Node:
        terms = [self._truth(first)]
        while self._tokens.accept(word):
            terms.append(self._truth(self._binary(_LEVELS[word] + 1)))
        return All(tuple(terms)) if word == "AND" else Any(tuple(terms))

    def _operation(self, left: Node) -> Node:
        tokens = self._tokens
        word = tokens.take().text
        if word in ("=", "<>"):
            node = self._equal(left, self._binary(_COMPARISON))
            return node if word == "=" else Not(node)
        if word in _SIGNS:
            return self._ordered(left, self._binary(_SIGN), _SIGNS[word])
        if word == "IS":
            negated = bool(tokens.accept("NOT"))
            tokens.expect("NULL")
            return Not(Absent(left)) if negated else Absent(left)
        negated = word == "NOT"
        if negated:
            word = tokens.accept("BETWEEN", "IN", *_TESTS)
        if word == "BETWEEN":
            return self._between(left, negated)
        if word == "IN":
            return self._one_of(left, negated)
        if word in _TESTS:
            return Holds(left, _TESTS[word], self._string(), negated, self._dialect)
        raise tokens.unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")

    def _equal(self, left: Node, right: Node) -> Node:
        for side in (left, right):
            if isinstance(side, Literal) and side.value is None:
                raise SqlError("nothing equals NULL; ask IS NULL instead")
        truth_first = isinstance(left, Literal) and isinstance(left.value, bool)
        if truth_first and isinstance(right, Literal) and not isinstance(right.value, bool):
            raise SqlError(f"a truth value cannot be compared with {right.value!r}")
        return Equal(left, right, self._dialect)

    def _ordered(self, left: Node, right: Node, signs: tuple[int, ...]) -> Node:
        for side in (left, right):
            number = not isinstance(side, Literal) or (
                isinstance(side.value, int | float) and not isinstance(side.value, bool)
            )
            if not number or isinstance(side, TRUTHS):
                raise SqlError("only numbers and properties have an order")
        return Ordered(left, right, signs, self._dialect)

    def _between(self, value: Node, negated: bool) -> Node:
        low = self._binary(_SIGN)
        self._tokens.expect("AND")
        high = self._binary(_SIGN)
        if isinstance(low, Literal) and isinstance(high, Literal):
            first, last = low.value, high.value
            if isinstance(first, int | float) and isinstance(last, int | float) and first > last:
                raise SqlError(f"nothing is between {first} and {last}")
        if negated:
            return Any((self._ordered(value, low, (-1,)), self._ordered(value, high, (1,))))
        return All((self._ordered(value, low, (0, 1)), self._ordered(value, high, (-1, 0))))

    def _one_of(self, left: Node, negated: bool) -> Node:
        if not isinstance(left, Property):
            raise SqlError("only a property can be IN a list")
        self._tokens.expect("(")
        texts = {self._string()}
        while self._tokens.accept(","):
            texts.add(self._string())
        self._tokens.expect(")")
        node = OneOf(left.name, frozenset(texts))
        return Not(node) if negated else node

    # Operators before one operand, and operands

    def _prefixed(self, level: int) -> Node:
        self._depth += 1
        self._check_depth(self._depth)
        tokens, tight = self._tokens, self._dialect.not_binds_tightest
        if (tight or level <= _NOT) and tokens.accept("NOT"):
            node: Node = Not(self._truth(self._prefixed(_NOT) if tight else self._binary(_NOT)))
        elif tokens.accept("-"):
            node = Negative(self._prefixed(_SIGN))
        elif tokens.accept("+"):
            node = self._prefixed(_SIGN)
        elif tokens.accept("("):
            node = self._binary(_OR)
            tokens.expect(")")
        else:
            node = self._operand()
        self._depth -= 1
        return node

    def _operand(self) -> Node:
        token = self._tokens.peek()
        if token.kind is Kind.NAME:
            node: Node = Property(token.text)
        elif token.kind is Kind.STRING:
            node = Literal(token.text)
        elif token.kind is Kind.INTEGER:
            node = Literal(_integer(token))
        elif token.kind is Kind.FLOAT:
            node = Literal(self._float(token))
        elif token.kind is Kind.KEYWORD and token.text in _CONSTANTS:
            node = Literal(_CONSTANTS[token.text])
        else:
            raise self._tokens.unexpected("a property or a value")
        self._tokens.take()
        return node

    def _float(self, token: Token) -> float:
        number = float(token.text)
        if isinf(number) or (not number and not self._dialect.float_zero_is_legal):
            raise SqlError(f"the number {token.text[:40]} cannot be held in 64 bits")
        return number

    def _string(self) -> str:
        if self._tokens.peek().kind is not Kind.STRING:
            raise self._tokens.unexpected("a text in quotes")
        return self._tokens.take().text

    def _truth(self, node: Node) -> Node:
        """Check that a node is a truth value."""
        if isinstance(node, Property):
            return BareProperty(node.name)
        if isinstance(node, TRUTHS):
            return node
        if isinstance(node, Literal) and (node.value is None or isinstance(node.value, bool)):
            return node
        raise SqlError("a number or a text stands where something true or false must be")

    def _check_depth(self, depth: int) -> None:
        if depth > limits.SQL_DEPTH_MAX:
            raise SqlError(f"more than {limits.SQL_DEPTH_MAX} parts of it are inside each other")


_CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}


def _integer(token: Token) -> int:
    digits = token.text.rstrip("lL")
    if len(digits) > 19 or int(digits) > LONG_MAX:
        raise SqlError(f"the number {digits[:40]} cannot be held in 64 bits")
    return int(digits)
