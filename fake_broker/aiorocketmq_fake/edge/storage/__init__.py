"""Persistence of a broker's state, which survives kill -9."""
