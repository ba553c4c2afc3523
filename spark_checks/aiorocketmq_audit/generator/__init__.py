"""Synthetic recordings of any size and shape, without violations or with injected faults."""

from typing import TYPE_CHECKING, Any

from aiorocketmq_audit.generator.shape import Shape

if TYPE_CHECKING:
    from aiorocketmq_audit.generator.recording import Generated, generate

__all__ = ["Generated", "Shape", "generate"]


def __getattr__(name: str) -> Any:  # the type of what is imported is declared above
    """Import numpy when a recording is generated, not before: `command` reports that it is missing."""
    if name not in ("Generated", "generate"):
        raise AttributeError(name)
    from aiorocketmq_audit.generator import recording

    return getattr(recording, name)
