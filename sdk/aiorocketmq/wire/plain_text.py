"""Escaping of received text in the commands of the client and the fake."""

from aiorocketmq._core.plain_text import plain, plain_lines

__all__ = ["plain", "plain_lines"]
