"""The soak: all clients at work for a long time while a fault strikes every few seconds, and nothing may get lost."""
