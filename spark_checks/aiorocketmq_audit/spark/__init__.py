"""Where Spark runs, on which Java, and what it did there."""
