"""Users, rights, TLS and namespaces; inventory 4.1 and 4.16."""
