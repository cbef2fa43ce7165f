"""The APB4 completer: turns bus transfers into single-cycle register accesses."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from unison.registers import ADDRESS_BITS

__all__ = ["ApbSignature", "AccessSignature", "ApbCompleter", "strobed_bits"]


class ApbSignature(wiring.Signature):
    """APB4 (AMBA APB Protocol Specification, issue C) as the requester sees it, 32 bits wide.

    Members
    -------
    paddr : Out(12), psel, penable, pwrite : Out(1), pwdata : Out(32), pstrb : Out(4), pprot : Out(3)
        ``pprot`` is ignored by the completer.
    prdata : In(32), pready, pslverr : In(1)
    """

    def __init__(self):
        super().__init__(
            {
                "paddr": Out(ADDRESS_BITS),
                "psel": Out(1),
                "penable": Out(1),
                "pwrite": Out(1),
                "pwdata": Out(32),
                "pstrb": Out(4),
                "pprot": Out(3),
                "prdata": In(32),
                "pready": In(1),
                "pslverr": In(1),
            }
        )


class AccessSignature(wiring.Signature):
    """A register access in two steps: ``query`` asks once, ``commit`` follows in a later cycle unless it was refused.

    Members
    -------
    query : Out(1)
        Sample ``data_read`` and ``refused`` now.
    commit : Out(1)
        The access takes effect; never for one that was refused.
    address : Out(12), write : Out(1), data : Out(32), strobe : Out(4)
        Stable from ``query`` to ``commit``.
    data_read : In(32), refused : In(1)
    """

    def __init__(self):
        super().__init__(
            {
                "query": Out(1),
                "commit": Out(1),
                "address": Out(ADDRESS_BITS),
                "write": Out(1),
                "data": Out(32),
                "strobe": Out(4),
                "data_read": In(32),
                "refused": In(1),
            }
        )


def strobed_bits(access, lsb, width):
    """Which of the bits ``lsb`` ... of a register the strobes of ``access`` let a write change; ``width`` bits."""
    return Cat(access.strobe[bit // 8] for bit in range(lsb, lsb + width))


class ApbCompleter(wiring.Component):
    """Answers in the first access cycle, or in the second one after ``hold`` falls. Both outputs are registered.

    Members
    -------
    apb : In(ApbSignature())
    access : Out(AccessSignature())
    hold : In(1)
        No access is begun: the bus waits.
    """

    def __init__(self):
        super().__init__({"apb": In(ApbSignature()), "access": Out(AccessSignature()), "hold": In(1)})

    def elaborate(self, platform):
        m = Module()
        apb, access = self.apb, self.access
        read_data, refused = Signal(32), Signal()

        m.d.comb += [
            access.address.eq(apb.paddr),
            access.write.eq(apb.pwrite),
            access.data.eq(apb.pwdata),
            access.strobe.eq(apb.pstrb),
            access.query.eq(apb.psel & ~apb.pready & ~self.hold),
            access.commit.eq(apb.psel & apb.penable & apb.pready & ~refused),
            apb.prdata.eq(read_data),
            apb.pslverr.eq(refused),
        ]
        m.d.sync += apb.pready.eq(access.query)
        with m.If(access.query):
            m.d.sync += [read_data.eq(access.data_read), refused.eq(access.refused)]
        with m.Else():
            m.d.sync += refused.eq(0)
        return m
