"""Immutable values: requests and results (`model`), events, codes, limits, names, receipt handles, profiles.

Everything above uses them; they import the standard library and one another only.
"""
