"""All histories; importing this fills the books."""

from spark_checks.tests.histories import (
    content,
    drains,
    handlers,
    isolation,
    leases,
    order,
    queues,
    retries,
    transactions,
)
from spark_checks.tests.histories.book import ASIDE, CHECKED, SECOND, START, as_written

__all__ = [
    "ASIDE",
    "CHECKED",
    "SECOND",
    "START",
    "as_written",
    "content",
    "drains",
    "handlers",
    "isolation",
    "leases",
    "order",
    "queues",
    "retries",
    "transactions",
]
