"""Everything that shows an audit: the summary for machines, the page with its drawings, the terminal."""
