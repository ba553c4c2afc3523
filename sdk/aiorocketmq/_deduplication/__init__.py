"""The stores that remember which messages were handled."""
