"""Brokers broken on purpose, each in one way: the proof that the cases can fail. Inventory section 7."""
