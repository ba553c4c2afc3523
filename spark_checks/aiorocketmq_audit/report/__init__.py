"""Presentations of an audit: the summary for machines, the page with its drawings, the terminal."""
