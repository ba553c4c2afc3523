"""Results of runs for people and programs: terminal, JSON, JUnit, one HTML page. Imports `results` and `verdicts`."""
