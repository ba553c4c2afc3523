"""Runs what needs a container engine, also where no image registry can be reached; see `__main__`."""
