"""What asyncio lacks: events, shielding, supervised tasks, periodic jobs, work in threads.

Knows nothing of RocketMQ's protocols. Imports the standard library, anyio and `_core`.
"""
