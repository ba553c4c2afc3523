"""Filter expressions of consumers: `expressions` parses tag and SQL filters, `sql` is the SQL92 language.

May import `values` only.
"""
