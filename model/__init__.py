"""The golden model: the contract's arithmetic and events in plain Python, and what is measured with it."""
