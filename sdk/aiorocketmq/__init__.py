"""aiorocketmq: the asyncio client of RocketMQ 5."""
