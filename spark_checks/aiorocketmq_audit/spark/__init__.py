"""Spark sessions: their start, their Java runtime, and metrics of their work."""
