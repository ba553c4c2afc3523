"""What a client decides, without I/O, clock or chance: standard library only."""
