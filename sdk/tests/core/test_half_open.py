"""Dead connections are noticed by their heartbeats."""

from aiorocketmq._core.half_open import Beat, HalfOpenWatch


def test_two_heartbeats_without_answer_in_a_row_call_for_a_new_connection() -> None:
    watch = HalfOpenWatch()
    assert not watch.should_reconnect(Beat.TIMED_OUT, now=10.0, begun=7.0)
    assert watch.should_reconnect(Beat.TIMED_OUT, now=20.0, begun=17.0)


def test_any_other_end_of_a_heartbeat_begins_the_count_again() -> None:
    for other in (Beat.ANSWERED, Beat.FAILED):
        watch = HalfOpenWatch()
        watch.should_reconnect(Beat.TIMED_OUT, now=10.0, begun=7.0)
        assert not watch.should_reconnect(other, now=20.0, begun=19.0)
        assert not watch.should_reconnect(Beat.TIMED_OUT, now=30.0, begun=27.0)


def test_reconnections_keep_a_distance() -> None:
    watch = HalfOpenWatch()
    ends = [
        watch.should_reconnect(Beat.TIMED_OUT, now=float(now), begun=now - 3.0) for now in range(0, 100, 10)
    ]
    times = [number * 10 for number, end in enumerate(ends) if end]
    assert times == [10, 40, 70]


def test_heartbeats_of_many_clients_that_were_out_at_once_count_once() -> None:
    watch = HalfOpenWatch()
    together = [
        watch.should_reconnect(Beat.TIMED_OUT, now=10.0 + n / 100, begun=7.0 + n / 100) for n in range(25)
    ]
    assert not any(together)
    assert watch.should_reconnect(Beat.TIMED_OUT, now=14.0, begun=11.0)


def test_a_reconnection_begins_the_count_again() -> None:
    watch = HalfOpenWatch()
    ends = [
        watch.should_reconnect(Beat.TIMED_OUT, now=now, begun=now - 3.0)
        for now in (10.0, 20.0, 100.0, 110.0, 200.0, 210.0)
    ]
    assert ends == [False, True, False, True, False, True]
