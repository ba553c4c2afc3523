"""A frozen battery of recordings, and what must be judged of each.

`recordings/NAME.parquet` holds pages of `histories`, random histories, scenes of planted faults, generated recordings,
and recordings of real servers; `expected/NAME.json` all findings, exempted ones included, with verdicts and counts.
They were first judged by the engine of plain Spark expressions at commit 98b082d; `compare --accept` changes them.
"""
