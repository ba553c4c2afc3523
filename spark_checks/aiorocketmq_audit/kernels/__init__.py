"""The same questions over whole columns of numbers: what is judged and counted of a recording, without rows.

Processes of this machine, or Spark's workers, are dealt pieces of files, and exchange what they cut of them as blocks
of numbers; what is done with these is numpy's. These answers never stand as findings: where one says that something is
wrong, and nothing allows it, the check itself looks again.
"""
