"""Lite topics; inventory 4.6."""
