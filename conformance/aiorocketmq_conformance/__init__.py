"""aiorocketmq_conformance: the executable specification of RocketMQ 5."""
