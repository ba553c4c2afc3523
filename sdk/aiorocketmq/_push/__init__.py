"""The edge of the push consumer: waits, runs handlers and calls the server, as the cores decide."""
