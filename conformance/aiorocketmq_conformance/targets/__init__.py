"""Brokers that cases run against: the bundled fake, an address, Apache servers started for the run.

`choice` turns a `--target` into a `BrokerUnderTest` (`interface`): `fake`, `address` or `apache.target`. Topics,
groups and users are created by `fake_admin`, `remoting_admin` or `first_use`. `declarations` holds what known targets
declare. Imports `case`, `fixture`, `target` and `probe`; no case and nothing of the runner.
"""
