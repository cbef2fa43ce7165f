"""Cosimulation: the written Verilog in cocotb, driven over APB, against the golden model."""
