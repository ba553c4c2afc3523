"""Mutable records that make up the broker's state: topics, groups, clients, leases, progress, order, timers.

A record keeps its own invariants and knows nothing of the commands that change it. May import `filters` and `values`.
"""
