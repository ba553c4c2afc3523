"""The semantics of the broker: pure decisions, no input or output, no clock, no chance."""
