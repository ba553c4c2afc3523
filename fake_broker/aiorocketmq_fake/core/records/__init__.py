"""Mutable records of the broker's state: topics, groups, clients, leases, progress, order, timers.

A record keeps its own invariants and knows no command. May import `filters` and `values`.
"""
