"""aiorocketmq_fake: a RocketMQ broker for tests, in a pip install.

Names are imported when they are first used: the command line's help must not wait for gRPC.

The names, with their modules, are those of `__init__.pyi`.
"""

from aiorocketmq._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
