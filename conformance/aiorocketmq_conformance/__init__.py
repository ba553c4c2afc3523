"""aiorocketmq_conformance: the executable specification of RocketMQ 5.

`case` declares cases and `cases` holds them; `fixture` is what a case is written over, on a `target`. `targets` are
the brokers. `execution` runs one case, `runner` all of them, after `preflight` has probed the broker; `reports` shows
the `results`. `cli` and `command` are the command line. Imports follow the layers in `pyproject.toml`.
"""
