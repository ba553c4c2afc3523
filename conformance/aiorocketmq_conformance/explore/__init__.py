"""The explorer: random histories of calls on a broker, judged by the reference model, shrunk and printed."""
