"""Procedures that cases of several packages use: negative acknowledgements, transactions, reading queues by offset.

Imports what cases may import, and no package of cases.
"""
