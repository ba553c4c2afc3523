"""Spark frames: what is judged, and what the report shows of groups and times."""
