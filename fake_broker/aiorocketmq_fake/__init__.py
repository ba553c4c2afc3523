"""aiorocketmq_fake: a RocketMQ broker for tests, in a pip install."""
