"""The RTL of Unison in Amaranth: it obeys the contract in ``unison`` and never imports the golden model."""
