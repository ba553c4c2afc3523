"""Mutants made by mutmut's operators, judged by the cases, the explorer and the tests that execute their lines."""
