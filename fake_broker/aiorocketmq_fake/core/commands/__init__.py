"""What the commands and timers of the broker do: one module per subject, most with one class over the shared `State`.

May import `state`, `records`, `filters` and `values` of the core, and one another without cycles; only `broker` imports
this package.
"""
