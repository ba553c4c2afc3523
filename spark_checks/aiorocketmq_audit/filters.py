"""Check `filters`: a consumer gets what it asked for, and nothing else.

INV-FILTER, for filters by tag, as each delivery's receive gave them. SQL expressions are not judged: the
properties that they look at are not in a recording.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit.findings import BROKEN, finding

NAME = "filters"


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
        )
    )


def is_unwanted(wanted: str = "filter") -> Column:
    """Whether a row's tag is outside of the tags asked for; null where it is not known or not by tag."""
    # `transform` gives a function of two parameters, as F.trim is, the place as well.
    tags = F.transform(F.split(F.substr(wanted, F.lit(5)), r"\|\|"), lambda tag: F.trim(tag))  # noqa: PLW0108
    everything = F.array_contains(tags, "*") | (F.array_join(tags, "") == "")
    inside = everything | F.array_contains(tags, F.coalesce("tag", F.lit("")))
    return F.when(F.startswith(wanted, F.lit("TAG:")), ~inside)
