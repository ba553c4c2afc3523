"""Consumers of topic `orders` in group `billing`, as most tests need them."""

from functools import partial

from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq.simple_consumer import SimpleConsumer

simple_consumer = partial(SimpleConsumer, group="billing", subscriptions=["orders"])
push_consumer = partial(PushConsumer, group="billing", subscriptions=["orders"])
