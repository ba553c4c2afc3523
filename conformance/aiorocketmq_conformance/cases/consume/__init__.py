"""Receive, settle, push and pull; inventory 4.7 to 4.9."""
