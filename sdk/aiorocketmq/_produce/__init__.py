"""What a producer is made of."""
