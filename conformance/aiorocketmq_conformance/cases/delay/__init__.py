"""Delayed messages and their recall; inventory 4.4."""
