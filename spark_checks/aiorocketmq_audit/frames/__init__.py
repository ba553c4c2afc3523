"""The frames: the tables that rules judge, each derived from the events by one shuffle."""
