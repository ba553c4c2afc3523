"""The commands of administration, as the program's entry points name them."""

from aiorocketmq.cli.groups import group
from aiorocketmq.cli.stored import message
from aiorocketmq.cli.topics import topic

__all__ = ["group", "message", "topic"]
