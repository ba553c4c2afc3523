"""What filters by tag let pass, over numbers."""

from __future__ import annotations

import numpy as np

from aiorocketmq_audit.filters import unwanted
from aiorocketmq_audit.kernels.events import Events, Mask


def is_refused(events: Events, wanted: str) -> Mask:
    """Which events have a tag that this filter by tag does not let pass."""
    keys = [key for key, tag in events.vocabulary("tag").items() if unwanted(wanted, tag)]
    return np.isin(events.text("tag"), np.array(keys, np.uint64))
