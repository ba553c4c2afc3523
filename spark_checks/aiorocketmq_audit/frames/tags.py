"""Filters by tag, as receives ask for them: `TAG:` and the tags, with `||` between them."""

from __future__ import annotations

from pyspark.sql import Column, functions as F

_WHITE = "".join(map(chr, range(0x21)))


def is_unwanted(wanted: str = "filter") -> Column:
    """Whether a row's tag is outside of the tags asked for; null where it is not known or not by tag."""
    # Servers take any white space off, not blanks only.
    tags = F.split(F.trim(F.substr(wanted, F.lit(5)), F.lit(_WHITE)), r"[\x00-\x20]*\|\|[\x00-\x20]*")
    everything = F.array_contains(tags, "*") | (F.array_join(tags, "") == "")
    inside = everything | F.array_contains(tags, F.coalesce("tag", F.lit("")))
    # Most ask for everything, and splitting texts is dear.
    by_tags = F.when(F.startswith(wanted, F.lit("TAG:")), ~inside)
    return F.when(F.col(wanted) == "TAG:*", F.lit(False)).otherwise(by_tags)
