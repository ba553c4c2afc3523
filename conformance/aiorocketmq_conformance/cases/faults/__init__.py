"""Lost calls, partitions, pauses, crashes and restarts; inventory 4.19."""
