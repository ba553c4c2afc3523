"""The demonstration: every part of the toolkit once, on one machine, with a page that shows what happened.

`run` plays the `scenario`, runs cases, starts the audit as a process, and writes the page (`page`, `charts`) of what
`histories` reads from the recording. Stands on everything else; nothing imports it.
"""
