"""Unison, a near-memory scheduler of session KV residency: the contract that model and hardware obey."""

__version__ = "0.1.0"
