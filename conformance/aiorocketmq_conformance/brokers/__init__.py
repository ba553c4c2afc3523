"""Brokers that cases can be run against: the bundled fake, any address, real Apache servers."""
