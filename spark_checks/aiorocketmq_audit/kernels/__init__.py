"""The same questions over whole columns of numbers: what is counted of a large recording, without rows.

Spark finds the files, spreads the work, and carries what is exchanged as blocks of numbers; what is done with them is
numpy's. These answers never stand as findings: where one says that something is wrong, the check itself looks again.
"""
