"""The wire schema of the fake's control service: messages and methods."""
