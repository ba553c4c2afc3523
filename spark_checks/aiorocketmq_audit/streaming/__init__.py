"""The same checks over a recording that grows: Structured Streaming with carried events (docs/reference/audit.md)."""
