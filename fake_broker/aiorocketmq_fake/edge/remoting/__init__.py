"""The classic remoting protocol over the same core: its frames, its requests, and the port that serves them."""
