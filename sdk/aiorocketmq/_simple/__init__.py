"""The parts of the simple consumer."""
