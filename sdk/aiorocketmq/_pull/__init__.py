"""The edge of the pull consumer: its calls, and the pulls that are out for its queues."""
