"""Everything before the judging: find, validate and read a recording, and tell whether it is whole."""
