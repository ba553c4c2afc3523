"""How bytes travel: one interface, and its implementation on grpcio."""
