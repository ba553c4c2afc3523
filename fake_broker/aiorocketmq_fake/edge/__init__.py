"""The servers around the core: everything that can wait or fail."""
