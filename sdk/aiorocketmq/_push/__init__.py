"""The push consumer: receives, runs handlers and settles, on either wire."""
