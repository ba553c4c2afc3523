"""The frames: what rules judge, made of the events by one exchange each."""
