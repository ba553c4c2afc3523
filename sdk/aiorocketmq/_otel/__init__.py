"""Parts of the OpenTelemetry hook: spans, metrics, and the messages in flight that a gauge counts."""
