"""Brokers with one injected defect each: the proof that the cases can fail. Inventory section 7."""
