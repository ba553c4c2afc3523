from aiorocketmq._core.assignment import AssignmentChange, assignment_change


def test_new_queues_are_taken_up_and_missing_ones_dropped() -> None:
    assert assignment_change(held=["a", "b"], assigned=["b", "c"]) == AssignmentChange(("c",), ("a",))


def test_the_same_answer_changes_nothing() -> None:
    assert assignment_change(held=["a"], assigned=["a", "a"]) == AssignmentChange((), ())


def test_a_queue_that_is_named_twice_is_taken_up_once() -> None:
    assert assignment_change(held=[], assigned=["b", "a", "b"]) == AssignmentChange(("b", "a"), ())


def test_an_empty_answer_drops_all() -> None:
    assert assignment_change(held=["a", "b"], assigned=[]) == AssignmentChange((), ("a", "b"))
