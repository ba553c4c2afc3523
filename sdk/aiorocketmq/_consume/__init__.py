"""Shared by message-granular consumers: receiving, leases, settling, handlers, lite topics, dead letters.

Imports `_session` and what that imports; `_simple`, `_push` and `_pull` are built on it."""
