"""Declaring cases and finding them again."""

from __future__ import annotations

import pytest
from aiorocketmq_conformance.case import Level, Registry, case
from aiorocketmq_conformance.fixture import Fixture

from conformance.tests.engine.conftest import Nothing


@pytest.fixture
def registry() -> Registry:
    return Registry()


async def test_the_first_paragraph_of_the_docstring_is_the_claim(registry: Registry) -> None:
    @case("send.receipt", rules=("R4.1",), level=Level.SHOULD, needs=("dlq",), timeout=5, registry=registry)
    async def receipt(fixture: Fixture) -> None:
        """A send
        is answered.

        More about it.
        """

    declared = registry["send.receipt"]
    assert (declared.claim, declared.rules, declared.level) == (
        "A send is answered.",
        ("R4.1",),
        Level.SHOULD,
    )
    assert (declared.needs, declared.timeout, declared.group) == (("@topic", "@group", "dlq"), 5, "send")


async def test_a_parametrised_function_makes_one_case_for_each_parameter(
    registry: Registry, broker: Nothing
) -> None:
    values: list[object] = []

    @case("send.body", params={"cjk": "消息", "1B": "x"}, registry=registry)
    async def body(fixture: Fixture, value: str) -> None:
        """A {} body arrives."""
        values.append(value)

    assert [each.id for each in registry] == ["send.body[cjk]", "send.body[1B]"]
    assert registry["send.body[cjk]"].claim == "A cjk body arrives."
    assert registry["send.body[cjk]"].stem == "send.body"
    for each in registry:
        async with broker.open(each) as target:
            await each.run(target)
    assert values == ["消息", "x"]


@pytest.mark.parametrize(
    ("patterns", "levels", "found"),
    [
        ((), (), ["send.a", "send.b[x]", "send.b[y]", "fifo.a"]),
        (("send.*",), (), ["send.a", "send.b[x]", "send.b[y]"]),
        (("send.b[x]",), (), ["send.b[x]"]),
        (("send.b",), (), ["send.b[x]", "send.b[y]"]),
        (("*.a", "*[y]"), (), ["send.a", "send.b[y]", "fifo.a"]),
        (("send.[ab]",), (), []),
        ((), (Level.SHOULD,), ["fifo.a"]),
        (("send.*",), (Level.SHOULD,), []),
    ],
)
def test_cases_are_selected_by_glob_and_level(
    registry: Registry, patterns: tuple[str, ...], levels: tuple[Level, ...], found: list[str]
) -> None:
    async def one(fixture: Fixture) -> None:
        """It holds."""

    async def two(fixture: Fixture, value: object) -> None:
        """It holds."""

    case("send.a", registry=registry)(one)
    case("send.b", params={"x": 1, "y": 2}, registry=registry)(two)
    case("fifo.a", level=Level.SHOULD, registry=registry)(one)
    assert [each.id for each in registry.select(patterns, levels)] == found


async def _without_docstring(fixture: Fixture) -> None: ...


async def _fine(fixture: Fixture) -> None:
    """It holds."""


@pytest.mark.parametrize("case_id", ["send", "Send.a", "send.a[", "send.a[]", "send.a b", ""])
def test_an_id_of_another_form_is_refused(registry: Registry, case_id: str) -> None:
    with pytest.raises(ValueError, match="is not of the form"):
        case(case_id, registry=registry)(_fine)


def test_an_id_cannot_be_declared_twice(registry: Registry) -> None:
    case("send.a", registry=registry)(_fine)
    with pytest.raises(ValueError, match="twice"):
        case("send.a", registry=registry)(_fine)


def test_a_case_without_a_claim_is_refused(registry: Registry) -> None:
    with pytest.raises(ValueError, match="no docstring"):
        case("send.a", registry=registry)(_without_docstring)


def test_a_timeout_must_be_positive(registry: Registry) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        case("send.a", timeout=0, registry=registry)(_fine)
