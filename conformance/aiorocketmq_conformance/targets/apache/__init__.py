"""Apache RocketMQ servers on this machine, from Maven's packages, without Docker.

`jars` fetches a version, `layout` writes its configuration, `server` starts and stops its processes; `target` makes a
target of them. All but `target` and `retention` know nothing of cases, and tests and benchmarks use them, too.
"""
