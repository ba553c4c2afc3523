"""Ordered groups, and priorities; inventory 4.3 and 4.6."""
