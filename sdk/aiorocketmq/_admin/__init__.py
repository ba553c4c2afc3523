"""Requests of `Admin` to name servers and brokers, by subject: topics, groups, offsets, stored messages."""
