"""The producer: requests with retries, batches, outages and transactions, on either wire."""
