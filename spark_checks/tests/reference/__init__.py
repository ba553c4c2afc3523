"""Judges recordings by plain readings of the invariants: lists and loops, one history at a time, for small ones.

Of the standard library only, and without a rule of the audit, which is tested against it.
"""
