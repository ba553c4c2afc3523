"""The last legal and the first illegal value of each limit; inventory 4.15."""
