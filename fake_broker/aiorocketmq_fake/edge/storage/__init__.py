"""Keeps a broker's state on disk, so that it survives kill -9."""
