"""One measured process each: the same work by a bare stub, by our clients and by Apache's Python client."""
