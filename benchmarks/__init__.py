"""Speed and size, measured side by side: a bare stub, our clients and Apache's Python client, all against our fake."""
