"""All pages; importing this registers them."""

from spark_checks.tests.histories import (
    content,
    drains,
    exemptions,
    handlers,
    isolation,
    leases,
    locks,
    moves,
    order,
    queues,
    retries,
    transactions,
)
from spark_checks.tests.histories.book import PAGES, rows_of
from spark_checks.tests.histories.history import SECOND, START, History

__all__ = [
    "PAGES",
    "SECOND",
    "START",
    "History",
    "content",
    "drains",
    "exemptions",
    "handlers",
    "isolation",
    "leases",
    "locks",
    "moves",
    "order",
    "queues",
    "retries",
    "rows_of",
    "transactions",
]
