"""Sessions, routes and settings of clients, and what the client library does on the wire; inventory 4.1."""
