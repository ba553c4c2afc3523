"""Recordings made up from nothing: honest ones of any size and shape, and ones with faults planted in them."""

from aiorocketmq_audit.generator.generate import Generated, generate
from aiorocketmq_audit.generator.shape import Shape

__all__ = ["Generated", "Shape", "generate"]
