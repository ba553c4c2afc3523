"""Tag filters as receives contain them: `TAG:` and the tags, separated by `||`."""

from __future__ import annotations

from pyspark.sql import Column, functions as F

_WHITE = "".join(map(chr, range(0x21)))


def is_unwanted(wanted: str = "filter") -> Column:
    """Return whether a row's tag does not match its filter; null if the filter is unknown or not by tag."""
    # Servers strip any white space, not spaces only.
    tags = F.split(F.trim(F.substr(wanted, F.lit(5)), F.lit(_WHITE)), r"[\x00-\x20]*\|\|[\x00-\x20]*")
    everything = F.array_contains(tags, "*") | (F.array_join(tags, "") == "")
    inside = everything | F.array_contains(tags, F.coalesce("tag", F.lit("")))
    # Most filters are `*`, and splitting texts is expensive.
    by_tags = F.when(F.startswith(wanted, F.lit("TAG:")), ~inside)
    return F.when(F.col(wanted) == "TAG:*", F.lit(False)).otherwise(by_tags)
