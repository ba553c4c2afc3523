"""Values of servers beyond their bounds: adjusted in settings, refused elsewhere."""

import math

import pytest
from aiorocketmq._core import bounds
from aiorocketmq._core.bounds import (
    bounded_answer,
    check_queue,
    check_servers,
    check_sizes,
    clipped,
    one_line,
)
from aiorocketmq._core.settings import Answer, Backoff, ServerSettings

USUAL = Answer(
    backoff=Backoff(17, steps=(10.0, 30.0), multiplier=1.0),
    max_body=4 * 1024 * 1024,
    validate_message_type=True,
    ordered=False,
    receive_batch=32,
    long_polling=20.0,
    lite_quota=2000,
    lite_topic_limit=64,
    metrics_endpoint="10.0.0.1:4317",
)


def adjusted(**values: object) -> tuple[Answer, list[str]]:
    answer, adjustments = bounded_answer(Answer(**values))  # type: ignore[arg-type]
    return answer, [each.text for each in adjustments]


def test_usual_settings_are_taken_as_they_are() -> None:
    assert bounded_answer(USUAL) == (USUAL, ())
    assert bounded_answer(Answer()) == (Answer(), ())


@pytest.mark.parametrize(
    "values",
    [
        {"backoff": Backoff(17, steps=(0.0, *[43_200.0] * 999))},
        {"backoff": Backoff(1, initial=43_200.0, maximum=43_200.0, multiplier=100.0)},
        {"max_body": 2**31 - 1, "receive_batch": 1024, "long_polling": 120.0},
        {"max_body": 1, "receive_batch": 1, "long_polling": 1.0},
        {"metrics_endpoint": ";".join(f"10.0.0.{number}:1" for number in range(128))},
    ],
    ids=["steps", "formula", "largest", "smallest", "addresses"],
)
def test_settings_at_their_bounds_are_taken_as_they_are(values: dict[str, object]) -> None:
    assert adjusted(**values) == (Answer(**values), [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "field", ["max_body", "receive_batch", "long_polling", "lite_quota", "lite_topic_limit"]
)
def test_zero_is_unset_and_no_adjustment(field: str) -> None:
    assert adjusted(**{field: 0}) == (Answer(), [])


@pytest.mark.parametrize(
    "field", ["max_body", "receive_batch", "long_polling", "lite_quota", "lite_topic_limit"]
)
def test_a_negative_number_is_ignored_with_one_line(field: str) -> None:
    answer, texts = adjusted(**{field: -1})
    assert answer == Answer()
    assert ServerSettings().merged(answer) == ServerSettings()
    (text,) = texts
    assert " -1 is not within " in text
    assert text.endswith(": ignored")


@pytest.mark.parametrize(
    ("field", "value", "bounded"),
    [
        ("receive_batch", 2**31 - 1, 1024),
        ("long_polling", 1e9, 120.0),
        ("long_polling", 1e-9, 1.0),
    ],
)
def test_a_number_out_of_range_becomes_the_nearest_one(field: str, value: float, bounded: float) -> None:
    answer, texts = adjusted(**{field: value})
    assert getattr(answer, field) == bounded
    assert texts[0].endswith(f": {bounded:g} is used")


def test_a_back_off_of_a_million_steps_is_cut() -> None:
    answer, texts = adjusted(backoff=Backoff(17, steps=tuple(map(float, range(1_000_000)))))
    assert answer.backoff is not None
    assert answer.backoff.steps == tuple(map(float, range(1000)))
    assert texts == ["next has more than 1000 steps: the first ones are used"]


def test_steps_are_within_zero_and_twelve_hours() -> None:
    answer, texts = adjusted(backoff=Backoff(17, steps=(-1.0, 5.0, 1e12)))
    assert answer.backoff is not None
    assert answer.backoff.steps == (0.0, 5.0, 43_200.0)
    assert texts == ["next has a step of 1e+12 s, not within 0 to 43200: adjusted"]


def test_a_negative_step_is_named_if_none_is_too_long() -> None:
    _, texts = adjusted(backoff=Backoff(17, steps=(5.0, -1.0)))
    assert texts == ["next has a step of -1 s, not within 0 to 43200: adjusted"]


@pytest.mark.parametrize("attempts", [0, -1, -(2**31)])
def test_attempts_that_mean_nothing_become_the_default(attempts: int) -> None:
    answer, _ = bounded_answer(Answer(backoff=Backoff(attempts)))
    assert answer.backoff is not None
    assert answer.backoff.max_attempts == 17


@pytest.mark.parametrize(
    ("multiplier", "bounded"),
    [(0.0, 1.0), (-2.0, 1.0), (0.5, 1.0), (2.0, 2.0), (3e38, 100.0), (math.inf, 100.0), (math.nan, 1.0)],
)
def test_a_formula_never_overflows(multiplier: float, bounded: float) -> None:
    answer, _ = bounded_answer(
        Answer(backoff=Backoff(2**31 - 1, initial=1e18, maximum=1e18, multiplier=multiplier))
    )
    assert answer.backoff is not None
    assert answer.backoff.multiplier == bounded
    assert answer.backoff.delay(2**31 - 1) == 43_200.0


@pytest.mark.parametrize(
    "endpoint",
    ["", "host:0", "host:99999", "a b:1", "a:1;b:1", ";".join(["10.0.0.1:1"] * 129), "\n" * 100_000],
)
def test_metrics_go_nowhere_if_their_endpoint_is_none(endpoint: str) -> None:
    answer, texts = adjusted(metrics_endpoint=endpoint)
    assert answer.metrics_endpoint is None
    (text,) = texts
    assert text.startswith("no metrics are exported: ")
    assert text.isprintable()
    assert len(text) < 1100


def test_sizes_of_usual_routes_are_taken() -> None:
    check_sizes([])
    check_sizes([3] * 16_384)
    check_sizes([128] * 512)
    check_queue("broker-a", -1)
    check_queue("b" * 255, 0)
    check_servers(1024)


@pytest.mark.parametrize(
    ("addresses", "said"),
    [
        ([1] * 16_385, "it has 16385 queues"),
        ([1, 129], "a server with 129 addresses"),
        ([128] * 512 + [1], "its queues have 65537 addresses"),
    ],
)
def test_a_route_that_is_too_large_is_refused(addresses: list[int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_sizes(addresses)


@pytest.mark.parametrize(("broker", "queue_id"), [("b", -2), ("b" * 256, 0), ("b\nc", 0)])
def test_a_queue_that_cannot_be_is_refused(broker: str, queue_id: int) -> None:
    with pytest.raises(ValueError, match="it has a") as error:
        check_queue(broker, queue_id)
    assert str(error.value).isprintable()


def test_too_many_servers_are_refused() -> None:
    with pytest.raises(ValueError, match="has 1025 servers"):
        check_servers(1025)


def test_texts_are_clipped_and_made_one_line() -> None:
    assert clipped("x" * bounds.MAX_TEXT) == "x" * bounds.MAX_TEXT
    assert clipped("x" * (bounds.MAX_TEXT + 1)) == "x" * bounds.MAX_TEXT + "…"
    assert one_line(" a \r\n b\x07\t") == "a b\\u0007"
