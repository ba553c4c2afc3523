"""Half messages, commits, rollbacks and checks; inventory 4.5."""
