"""The semantics of the broker: pure decisions, no input or output, no clock, no chance.

Start at `broker.Broker`; values are in `model`, codes in `codes`, facts in `events`, choices in `profile`.
"""
