"""Attempts of messages that failed, and when they are redelivered; inventory 4.10 and 4.11."""
