"""A run's results for people and programs: terminal, JSON, JUnit, one HTML page."""
