"""Check `filters`: a consumer gets what it asked for, and nothing else.

INV-FILTER, for filters by tag, as each delivery's receive gave them. SQL expressions are not judged: the
properties that they look at are not in a recording.
"""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit.findings import BROKEN, finding

NAME = "filters"
_WHITE = "".join(map(chr, range(0x21)))


def filters(deliveries: DataFrame) -> DataFrame:
    """Deliveries with a tag that nobody asked for: rows of FINDING."""
    itself = (F.col("recorder"), F.col("seq"))
    return deliveries.where("unwanted").select(
        finding(
            NAME,
            F.lit("INV-FILTER"),
            F.lit(BROKEN),
            margin=F.lit(None),
            at=F.col("hi"),
            first=itself,
            second=itself,
            cut=F.col("cut"),
        )
    )


def is_unwanted(wanted: str = "filter") -> Column:
    """Whether a row's tag is outside of the tags asked for; null where it is not known or not by tag."""
    # Servers take any white space off, not blanks only.
    tags = F.split(F.trim(F.substr(wanted, F.lit(5)), F.lit(_WHITE)), r"[\x00-\x20]*\|\|[\x00-\x20]*")
    everything = F.array_contains(tags, "*") | (F.array_join(tags, "") == "")
    inside = everything | F.array_contains(tags, F.coalesce("tag", F.lit("")))
    # Most ask for everything, and splitting texts is dear.
    by_tags = F.when(F.startswith(wanted, F.lit("TAG:")), ~inside)
    return F.when(F.col(wanted) == "TAG:*", F.lit(False)).otherwise(by_tags)


def unwanted(wanted: str, tag: str | None) -> bool:
    """The same of one filter by tag and one tag."""
    tags = re.split(r"[\x00-\x20]*\|\|[\x00-\x20]*", wanted.removeprefix("TAG:").strip(_WHITE))
    return not ("*" in tags or not any(tags) or (tag or "") in tags)
