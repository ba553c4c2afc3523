"""The demonstration: every part of the toolkit once, on one machine, with a page that shows what happened."""
