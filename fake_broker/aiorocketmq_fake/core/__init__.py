"""The broker's semantics: pure decisions, no input or output, no clock, no randomness of its own.

Start at `broker.Broker`. Layers, top to bottom; each may import those below it and nothing above it:

- `broker`: every command of the protocol as a method.
- `commands`: what commands and timers do.
- `state`: all records of one broker.
- `records`: mutable records (topics, leases, progress of groups), each with its own rules only.
- `filters`: tag and SQL filter expressions.
- `values`: immutable values, codes, events, limits and profiles.
"""
