"""aiorocketmq: the asyncio client of RocketMQ 5.

A name is imported from its module when it is first used, so that what needs only one part loads only that part.

The names, with their modules, are those of `__init__.pyi`.
"""

from aiorocketmq._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
