"""Stores of the keys of handled messages."""
