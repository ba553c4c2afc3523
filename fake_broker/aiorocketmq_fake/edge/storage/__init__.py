"""Persistence of a broker's state, which survives kill -9: a journal of commands, and checkpoints of the state.

`recovery` opens a data folder, `journal` writes it, `database` is the file, `codec` the serialization. May import
`core` only; `broker` imports it lazily.
"""
