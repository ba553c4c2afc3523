"""When a message becomes a dead letter, and what it keeps; inventory 4.12."""
