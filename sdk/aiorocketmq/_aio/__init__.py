"""What asyncio lacks: events, shielding, supervised tasks, periodic jobs, work in threads.

Knows nothing of RocketMQ's protocols. Imports `_core` and the public `clock` and `errors`.
"""
