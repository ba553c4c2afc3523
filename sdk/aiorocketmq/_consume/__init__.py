"""What message-granular consumers share: receiving, leases, settling, handlers, lite topics, dead letters.

Imports `_session` and what that imports; `_simple`, `_push` and `_pull` stand on it.
"""
