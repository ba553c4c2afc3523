"""The pull consumer: pulls, offsets and rebalancing, on either wire."""
