"""A FIFO with a stream at each end."""

from amaranth.hdl import Module, Shape
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Queue"]


class Queue(wiring.Component):
    """First in, first out; a payload is at the output one cycle after it was put in.

    Members
    -------
    put : In(stream of ``shape``)
    get : Out(stream of ``shape``)
        The payload means nothing while ``valid`` is low: the storage has no reset.
    level : Out(range(depth + 1))
        Payloads held.
    """

    def __init__(self, shape, depth):
        self.shape = shape
        self.depth = depth
        super().__init__(
            {
                "put": In(stream.Signature(shape)),
                "get": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # Read without a register, so that a shallow FIFO is distributed RAM and no block RAM is spent.
        m.submodules.storage = storage = fifo.SyncFIFO(width=Shape.cast(self.shape).width, depth=self.depth)
        m.d.comb += [
            storage.w_data.eq(self.put.payload),
            storage.w_en.eq(self.put.valid),
            self.put.ready.eq(storage.w_rdy),
            self.get.payload.eq(storage.r_data),
            self.get.valid.eq(storage.r_rdy),
            storage.r_en.eq(self.get.ready),
            self.level.eq(storage.level),
        ]
        return m
