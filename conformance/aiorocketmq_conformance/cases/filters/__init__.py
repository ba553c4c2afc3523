"""Tag and SQL92 filters, of receives and of pulls; inventory 4.14."""
