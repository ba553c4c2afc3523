import pytest
from aiorocketmq._core.pull_positions import PullPositions, PullTicket, lag


def placed(offset: int = 10) -> PullPositions[str]:
    positions = PullPositions[str]()
    positions.assign(["q"])
    positions.start_at("q", offset, committed=None)
    return positions


def pulled(positions: PullPositions[str], next_offset: int) -> PullTicket[str]:
    ticket = positions.ticket("q")
    assert ticket is not None
    assert positions.pulled(ticket, next_offset=next_offset, has_messages=True)
    return ticket


def test_assigning_adds_and_drops_and_keeps_the_place_of_the_rest() -> None:
    positions = placed()
    positions.pause("q")

    assert positions.assign(["q", "r"]) == (["r"], [])
    assert (positions.position("q"), positions.is_paused("q")) == (10, True)
    assert positions.assign(["r"]) == ([], ["q"])


def test_a_queue_without_a_place_is_not_pulled() -> None:
    positions = PullPositions[str]()
    positions.assign(["q"])
    assert positions.ticket("q") is None


def test_one_pull_at_a_time_and_none_while_a_batch_waits() -> None:
    positions = placed()
    ticket = positions.ticket("q")

    assert ticket is not None
    assert ticket == PullTicket("q", 10, ticket.epoch)
    assert positions.ticket("q") is None
    assert positions.pulled(ticket, next_offset=14, has_messages=True)
    assert positions.ticket("q") is None
    assert positions.take(ticket)
    following = positions.ticket("q")
    assert following is not None
    assert following.offset == 14


def test_the_position_moves_when_the_batch_is_taken() -> None:
    positions = placed()
    ticket = pulled(positions, 14)

    assert positions.position("q") == 10
    positions.take(ticket)
    assert positions.position("q") == 14


def test_an_empty_answer_moves_the_position_past_what_was_filtered_out() -> None:
    positions = placed()
    ticket = positions.ticket("q")
    assert ticket is not None
    positions.pulled(ticket, next_offset=99, has_messages=False)

    assert positions.position("q") == 99
    assert positions.due_commits() == {"q": 99}


def test_a_seek_makes_what_is_on_its_way_worthless() -> None:
    positions = placed()
    ticket = positions.ticket("q")
    assert ticket is not None
    positions.seek("q", 3)

    assert positions.pulled(ticket, next_offset=14, has_messages=True) is False
    assert positions.failed(ticket) is False
    following = positions.ticket("q")
    assert following is not None
    assert following.offset == 3


def test_a_seek_makes_the_waiting_batch_worthless() -> None:
    positions = placed()
    ticket = pulled(positions, 14)
    positions.seek("q", 3)

    assert positions.take(ticket) is False
    assert positions.is_current(ticket) is False
    assert positions.position("q") == 3
    following = positions.ticket("q")
    assert following is not None
    assert following.offset == 3


def test_a_batch_finished_after_a_seek_does_not_move_the_commit() -> None:
    positions = placed()
    ticket = pulled(positions, 14)
    positions.take(ticket)
    positions.seek("q", 3)
    positions.finish(ticket, 14)

    assert positions.due_commits() == {"q": 3}


def test_an_empty_answer_after_a_seek_waits_for_no_batch_of_before() -> None:
    positions = placed()
    ticket = pulled(positions, 14)
    positions.take(ticket)
    positions.seek("q", 3)
    empty = positions.ticket("q")
    assert empty is not None
    positions.pulled(empty, next_offset=9, has_messages=False)

    assert positions.due_commits() == {"q": 9}


def test_a_seek_back_is_committed_once() -> None:
    positions = placed()
    positions.note_committed("q", 10)
    positions.seek("q", 3)

    assert positions.due_commits() == {"q": 3}
    positions.note_committed("q", 3)
    assert (positions.committed("q"), positions.due_commits()) == (3, {})


def test_a_pull_that_fails_after_a_seek_starts_no_second_one() -> None:
    positions = placed()
    ticket = positions.ticket("q")
    assert ticket is not None
    positions.seek("q", 3)
    assert positions.ticket("q") is not None
    positions.failed(ticket)

    assert positions.ticket("q") is None


def test_a_failed_pull_may_be_tried_again() -> None:
    positions = placed()
    ticket = positions.ticket("q")
    assert ticket is not None
    assert positions.failed(ticket)
    assert positions.ticket("q") == ticket


def test_a_paused_queue_starts_no_pull_and_hands_out_nothing() -> None:
    positions = placed()
    ticket = pulled(positions, 14)
    positions.pause("q")

    assert positions.is_paused("q")
    assert positions.take(ticket) is False
    positions.resume("q")
    assert positions.take(ticket)
    positions.pause("q")
    assert positions.ticket("q") is None


def test_a_seek_ends_no_pause() -> None:
    positions = placed()
    positions.pause("q")
    positions.seek("q", 3)

    assert positions.ticket("q") is None
    positions.resume("q")
    assert positions.ticket("q") is not None


def test_a_queue_dropped_while_a_pull_is_out_forgets_its_answer() -> None:
    positions = placed()
    ticket = positions.ticket("q")
    assert ticket is not None
    positions.assign([])

    assert positions.pulled(ticket, next_offset=14, has_messages=True) is False
    assert positions.start_at("q", 0, committed=None) is False


def test_only_what_the_user_has_finished_is_committed() -> None:
    positions = placed()
    positions.note_committed("q", 10)
    ticket = pulled(positions, 14)
    positions.take(ticket)

    assert positions.due_commits() == {}
    positions.finish(ticket, 14)
    assert positions.due_commits() == {"q": 14}
    positions.note_committed("q", 14)
    assert positions.due_commits() == {}


@pytest.mark.parametrize("next_offset", [14, 20])
def test_an_empty_answer_behind_a_batch_does_not_commit_the_batch(next_offset: int) -> None:
    positions = placed()
    ticket = pulled(positions, 14)
    positions.take(ticket)

    behind = positions.ticket("q")
    assert behind is not None
    positions.pulled(behind, next_offset=next_offset, has_messages=False)
    assert positions.position("q") == next_offset
    assert positions.due_commits() == {"q": 10}

    positions.finish(ticket, 14)
    assert positions.due_commits() == {"q": next_offset}


def test_an_empty_answer_that_goes_back_to_the_first_offset_is_committed_too() -> None:
    """A recreated topic starts at offset 0, which is a position like any other."""
    positions = placed()
    ticket = pulled(positions, 14)
    positions.take(ticket)
    behind = positions.ticket("q")
    assert behind is not None
    positions.pulled(behind, next_offset=0, has_messages=False)

    positions.finish(ticket, 14)
    assert positions.due_commits() == {"q": 0}


def test_what_came_empty_before_a_batch_is_not_done_again_after_a_seek() -> None:
    positions = placed()
    ticket = pulled(positions, 14)
    positions.take(ticket)
    behind = positions.ticket("q")
    assert behind is not None
    positions.pulled(behind, next_offset=20, has_messages=False)

    positions.seek("q", 11)
    again = pulled(positions, 13)
    positions.take(again)
    positions.finish(ticket, 14)
    assert positions.due_commits() == {"q": 11}
    positions.finish(again, 13)
    assert positions.due_commits() == {"q": 13}


def test_what_was_committed_before_it_was_finished_is_not_withdrawn() -> None:
    positions = placed()
    ticket = pulled(positions, 14)
    positions.take(ticket)
    positions.note_committed("q", 14)
    assert positions.due_commits() == {}


def test_what_is_finished_while_an_older_offset_is_committed_stays_due() -> None:
    positions = placed()
    ticket = pulled(positions, 14)
    positions.take(ticket)
    positions.finish(ticket, 14)
    positions.note_committed("q", 10)

    assert positions.due_commits() == {"q": 14}


def test_a_first_position_does_not_overwrite_a_seek() -> None:
    positions = PullPositions[str]()
    positions.assign(["q"])
    positions.seek("q", 5)

    assert positions.start_at("q", 0, committed=0) is False
    assert positions.position("q") == 5


def test_asking_for_a_queue_that_is_not_assigned_is_an_error() -> None:
    with pytest.raises(KeyError):
        placed().seek("other", 1)


@pytest.mark.parametrize(
    ("position", "committed", "minimum", "maximum", "expected"),
    [
        (None, None, 5, 20, 15),
        (12, None, 5, 20, 8),
        (12, 10, 5, 20, 10),
        (12, 0, 0, 20, 20),
        (0, None, 0, 20, 20),
        (None, 2, 5, 20, 15),
        (None, 25, 5, 20, 0),
    ],
)
def test_lag_counts_from_the_committed_offset_but_never_below_what_is_kept(
    position: int | None, committed: int | None, minimum: int, maximum: int, expected: int
) -> None:
    assert lag(position=position, committed=committed, minimum=minimum, maximum=maximum) == expected
