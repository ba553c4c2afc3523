"""Judges recordings by plain readings of the invariants: lists and loops, one history at a time, for small ones."""
