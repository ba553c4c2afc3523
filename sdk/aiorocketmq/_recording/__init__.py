"""From what clients do to the files of a recording: facts, rows, columns, and where the work is done."""
