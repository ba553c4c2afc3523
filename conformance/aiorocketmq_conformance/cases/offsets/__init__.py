"""Progress of groups and retention of messages; inventory 4.18 and 4.19."""
