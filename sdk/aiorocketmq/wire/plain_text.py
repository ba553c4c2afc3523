"""How the client's and the fake's commands print what came over the wire."""

from aiorocketmq._core.plain_text import plain, plain_lines

__all__ = ["plain", "plain_lines"]
