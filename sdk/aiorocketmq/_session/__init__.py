"""A client's session with its servers: start, routes, settings streams, heartbeats, calls, retries and errors.

All kinds of clients stand on it; it knows none of them. Imports `_aio`, `_core`, `_transport` and `wire`.
"""
