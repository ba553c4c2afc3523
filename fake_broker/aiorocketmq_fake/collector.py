"""Settings of Python's garbage collector for a process that is nothing but a broker.

Stored messages live long, are never part of a cycle, and may be a million: a full collection takes seconds in which
no client is answered, and by default one runs each time the log has grown by a quarter.
"""

import gc

__all__ = ["spare_the_log"]


_OLD_ROUNDS = 1_000
"""Full collections run after so many collections of younger objects: after some seven million survivors."""


def spare_the_log() -> None:
    """Collect young objects as by default, old ones rarely, and those that exist now never."""
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _OLD_ROUNDS)
