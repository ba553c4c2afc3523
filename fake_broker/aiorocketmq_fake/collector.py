"""Python's collector of cycles, in a process that is nothing but a broker.

What the broker stores lives long, is never part of a cycle, and may be a million messages: a walk over all of them
takes seconds in which no client is answered, and by default one comes each time the log has grown by a quarter.
"""

import gc

__all__ = ["spare_the_log"]


_OLD_ROUNDS = 1_000
"""The oldest objects are walked after so many walks over younger ones: after some seven million that stayed."""


def spare_the_log() -> None:
    """Let the collector look at young objects as ever, at old ones rarely, and never at those that exist by now."""
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _OLD_ROUNDS)
