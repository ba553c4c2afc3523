"""Sends: receipts, batches, message fields, throttling; inventory 4.2."""
