"""A raw client of the v2 service for cases: it judges the broker with no client library in between."""
