"""The same checks over a growing recording: Structured Streaming with carried events (docs/reference/audit.md)."""
