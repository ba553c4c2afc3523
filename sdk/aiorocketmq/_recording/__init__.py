"""Parts of the recorder: client events become records, rows, columns and files, on a thread or in another process."""
