"""Simulation of clients and brokers in one process: virtual time, a network in memory, faults decided by a seed."""
