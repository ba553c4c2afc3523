"""`python -m aiorocketmq_audit`, which is also what `spark-submit` runs."""

from __future__ import annotations

import sys

try:
    from aiorocketmq_audit.cli import audit
except ModuleNotFoundError as missing:
    sys.exit(f"this command needs {missing.name}: run pip install 'aiorocketmq[cli]'.")

if __name__ == "__main__":
    audit(prog_name="python -m aiorocketmq_audit")
