"""The control service of the fake: its contract, message classes and calls."""
