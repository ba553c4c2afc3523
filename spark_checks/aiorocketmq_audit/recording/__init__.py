"""Everything before the rules: locates, validates and reads a recording, and checks whether it is complete."""
