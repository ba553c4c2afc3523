"""Brokers with one injected defect each: the proof that the cases can fail. Inventory section 7.

Each `*.toml` has mutants of one subject: `["file of the fake".name]` with the `defect` in words, the cases that it
`kills`, and the text `before` and `after`; `[profile.name]` has `changes` of fields instead.
"""
