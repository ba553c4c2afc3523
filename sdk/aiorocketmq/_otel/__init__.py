"""What the OpenTelemetry hook is made of: spans, metrics, and the messages in hand that a gauge counts."""
