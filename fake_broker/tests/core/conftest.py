"""Fixtures of the core tests."""
