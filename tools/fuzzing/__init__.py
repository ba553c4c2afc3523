"""Fuzzing of the fake broker: every RPC with requests that are valid, nearly valid, and garbage.

`python -m tools.fuzzing --requests 1000000` runs it by hand; the tests run 100,000 requests.
"""
