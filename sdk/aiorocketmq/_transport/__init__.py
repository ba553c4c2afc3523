"""Network transport: one interface, and its implementation on grpcio."""
