"""Containers for tests, on the library `testcontainers`: real RocketMQ servers, and the fake in its image.

Needs the extra `testcontainers`. Names are imported when they are first used; they are those of `__init__.pyi`.
"""

from aiorocketmq._lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
