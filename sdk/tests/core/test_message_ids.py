"""Message ids."""

import pytest
from aiorocketmq._core.message_ids import MessageIds

MACHINE = bytes.fromhex("56F7E71C361B")


def test_the_documented_example_is_reproduced() -> None:
    seconds = 0x024CCDBE + 1_609_459_200
    assert MessageIds(MACHINE, 0x21BC).next(seconds) == "0156F7E71C361B21BC024CCDBE00000000"


def test_ids_count_up_within_a_second_and_over_seconds() -> None:
    ids = MessageIds(MACHINE, 1)
    minted = [ids.next(now) for now in (1_700_000_000.0, 1_700_000_000.9, 1_700_000_001.0)]
    assert [each[-8:] for each in minted] == ["00000000", "00000001", "00000002"]
    assert minted == sorted(minted)


def test_a_clock_that_steps_back_repeats_no_id() -> None:
    ids = MessageIds(MACHINE, 1)
    assert len({ids.next(now) for now in (100.0, 99.0, 100.0, 99.0)}) == 4


def test_only_the_low_bits_of_a_large_process_number_are_used() -> None:
    assert MessageIds(MACHINE, 0x12345).next(0)[14:18] == "2345"


def test_a_machine_is_six_bytes() -> None:
    with pytest.raises(ValueError, match="6 bytes"):
        MessageIds(b"12345", 1)
