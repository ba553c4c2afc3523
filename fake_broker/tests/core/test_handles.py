"""Receipt handles as text."""

import pytest
from aiorocketmq_fake.core.values.handles import decode, encode


def test_a_handle_has_nine_fields_and_reads_back() -> None:
    text = encode(3, 1000, 500, 7, True, "broker-a", 2, 5, 99)
    assert text == "3 1000 500 7 1 broker-a 2 5 99"
    handle = decode(text)
    assert handle is not None
    assert (
        handle.start,
        handle.expires,
        handle.is_retry,
        handle.queue_id,
        handle.offset,
        handle.position,
    ) == (
        3,
        1500,
        True,
        2,
        5,
        99,
    )
    assert not handle.changed
    assert not handle.is_ordered


def test_a_changed_handle_has_one_field_more_that_hides_the_position() -> None:
    """What makes real servers dead-letter the wrong message (consumption §2, §5a)."""
    handle = decode(encode(0, 1000, 500, 999, False, "broker-a", 0, 0, 99, changed=True))
    assert handle is not None
    assert handle.changed
    assert handle.is_ordered
    assert handle.position == 0


def test_a_handle_cut_after_its_eighth_field_lacks_the_position() -> None:
    handle = decode("0 1000 500 0 0 broker-a 0 5")
    assert handle is not None
    assert handle.position is None


@pytest.mark.parametrize(
    "text", ["", "garbage", "0 1 2 3 4 b 0", "a 1 2 3 4 b 0 0 0", "0 1 2 3 x b 0 0 0", "0 1 2 3 0 b 0 0 z"]
)
def test_other_text_is_no_handle(text: str) -> None:
    assert decode(text) is None
