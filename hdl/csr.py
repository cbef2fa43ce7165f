"""The register file, built by walking the compiled SystemRDL map."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from unison.hdl.apb import AccessSignature, strobed_bits
from unison.registers import Kind, register_map

__all__ = ["RegisterFile"]


class RegisterFile(wiring.Component):
    """Every register of the map that is not external, and the decoding of those that are.

    Members, beside the fixed ones, by the names of the map in lower case:

    * ``<register>_<field>`` for a field: Out for storage and pulses, In for status, In(1) for a counter's increment and
      for what sets a sticky bit.
    * for an external register ``<register>_query`` and ``<register>_commit`` : Out(1), of a read or a write as
      ``access.write`` tells; ``<register>_data`` : In(32), what a read returns; ``<register>_refused`` : In(1), answer
      PSLVERR; and ``<register>_index`` : Out for an array.

    Members
    -------
    access : In(AccessSignature())
    idle : In(1)
        Guarded registers can be written.
    clear : In(1)
        Set the counters to 0.
    irq : Out(1)
        A bit is set in both IRQ_STATUS and IRQ_ENABLE.
    """

    def __init__(self, p):
        self.map = register_map(p)
        members = {"access": In(AccessSignature()), "idle": In(1), "clear": In(1), "irq": Out(1)}
        for register in self.map:
            name = register.name.lower()
            if register.external:
                members |= {
                    f"{name}_query": Out(1),
                    f"{name}_commit": Out(1),
                    f"{name}_data": In(32),
                    f"{name}_refused": In(1),
                }
                if register.count > 1:
                    members[f"{name}_index"] = Out(range(register.count))
                continue
            for field in register.fields:
                if field.kind in (Kind.STORAGE, Kind.PULSE):
                    members[f"{name}_{field.name}"] = Out(field.width, init=field.reset)
                elif field.kind is Kind.STATUS:
                    members[f"{name}_{field.name}"] = In(field.width)
                elif field.kind in (Kind.COUNTER, Kind.STICKY):
                    members[f"{name}_{field.name}"] = In(1)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        access = self.access
        values = {}
        m.d.comb += access.refused.eq(1)

        for register in self.map:
            selected = Signal(name=f"{register.name.lower()}_selected")
            if register.count > 1:
                words = (access.address - register.address)[2:]
                inside = (access.address >= register.address) & (words < register.count)
                m.d.comb += [
                    selected.eq(inside & (access.address[:2] == 0)),
                    self._member(register, "index").eq(words),
                ]
            else:
                m.d.comb += selected.eq(access.address == register.address)

            refused = Const(0)
            if not register.readable:
                refused |= ~access.write
            if not register.writable:
                refused |= access.write
            if register.guarded:
                refused |= access.write & ~self.idle
            if register.external:
                refused |= self._member(register, "refused")
                word = self._member(register, "data")
                m.d.comb += [
                    self._member(register, "query").eq(selected & access.query),
                    self._member(register, "commit").eq(selected & access.commit),
                ]
            else:
                written = selected & access.commit & access.write
                word = 0
                for field in register.fields:
                    value = self._value(m, register, field, written)
                    values[register.name, field.name] = value
                    word |= value << field.lsb
            with m.If(selected):
                m.d.comb += access.refused.eq(refused)
                if register.readable:
                    m.d.comb += access.data_read.eq(word)

        causes = [
            values["IRQ_STATUS", field.name] & values["IRQ_ENABLE", field.name]
            for field in self.map["IRQ_ENABLE"].fields
        ]
        m.d.comb += self.irq.eq(Cat(causes).any())
        return m

    def _member(self, register, suffix):
        return getattr(self, f"{register.name.lower()}_{suffix}")

    def _value(self, m, register, field, written):
        """What a read of ``field`` returns, with the storage behind it; ``written`` commits a write to its register."""
        if field.kind is Kind.CONSTANT:
            return Const(field.reset, field.width)
        member = self._member(register, field.name)
        data = self.access.data[field.lsb : field.lsb + field.width]
        mask = strobed_bits(self.access, field.lsb, field.width)
        mask &= written.replicate(field.width)
        if field.kind is Kind.STORAGE:
            m.d.sync += member.eq((member & ~mask) | (data & mask))
        elif field.kind is Kind.PULSE:
            m.d.sync += member.eq(data & mask)
        elif field.kind is Kind.STICKY:
            # A new cause beats a clear in the same cycle: software never loses one.
            sticky = Signal(name=f"{register.name.lower()}_{field.name}_kept", init=field.reset)
            m.d.sync += sticky.eq((sticky & ~(data & mask)) | member)
            return sticky
        elif field.kind is Kind.COUNTER:
            count = Signal(field.width, name=f"{register.name.lower()}_{field.name}_kept", init=field.reset)
            m.d.sync += count.eq(Mux(self.clear, 0, count + member))
            return count
        return member
