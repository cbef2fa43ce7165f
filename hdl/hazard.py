"""The hazard table: a shadow that software writes and the live copy that the scorer reads."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["HazardTable"]


class HazardTable(wiring.Component):
    """Two tables of ``p.turns`` hazards. ``copy`` makes the shadow live in ``p.turns`` cycles.

    After reset both are cleared, in as many cycles, while ``clearing`` is high: the memories have no reset.
    The live table holds min(h_Z, Lambda - epsilon_Z), so that the clamp of equation (15) is behind every reader.

    Members
    -------
    write_enable, write_turn, write_hazard : In
        Writes the shadow; ignored while clearing, and not to be used while copying.
    shadow_turn : In, shadow_hazard : Out(b_h)
        Reads the shadow in the same cycle, while not copying.
    turn : In, hazard : Out(b_h)
        Reads the live table in the same cycle.
    copy : In(1)
        Starts a copy.
    busy : Out(1)
        Copying or clearing.
    clearing : Out(1)
    """

    def __init__(self, p):
        self.p = p
        turn = range(p.turns)
        super().__init__(
            {
                "write_enable": In(1),
                "write_turn": In(turn),
                "write_hazard": In(p.hazard_bits),
                "shadow_turn": In(turn),
                "shadow_hazard": Out(p.hazard_bits),
                "turn": In(turn),
                "hazard": Out(p.hazard_bits),
                "copy": In(1),
                "busy": Out(1),
                "clearing": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        p = self.p
        m.submodules.shadow = shadow = memory.Memory(shape=p.hazard_bits, depth=p.turns, init=[])
        m.submodules.live = live = memory.Memory(shape=p.hazard_bits, depth=p.turns, init=[])
        shadow_write, shadow_read = shadow.write_port(), shadow.read_port(domain="comb")
        live_write, live_read = live.write_port(), live.read_port(domain="comb")

        clearing = Signal(init=1)
        copying = Signal()
        walked = Signal(range(p.turns))
        with m.If(clearing | copying):
            m.d.sync += walked.eq(walked + 1)
            with m.If(walked == p.turns - 1):
                m.d.sync += [clearing.eq(0), copying.eq(0), walked.eq(0)]
        with m.Elif(self.copy):
            m.d.sync += copying.eq(1)

        highest = p.hazard_max - p.survival_min
        m.d.comb += [
            self.busy.eq(clearing | copying),
            self.clearing.eq(clearing),
            shadow_write.addr.eq(Mux(clearing, walked, self.write_turn)),
            shadow_write.data.eq(Mux(clearing, 0, self.write_hazard)),
            shadow_write.en.eq(clearing | self.write_enable),
            shadow_read.addr.eq(Mux(copying, walked, self.shadow_turn)),
            self.shadow_hazard.eq(shadow_read.data),
            live_write.addr.eq(walked),
            live_write.data.eq(Mux(clearing, 0, Mux(shadow_read.data > highest, highest, shadow_read.data))),
            live_write.en.eq(clearing | copying),
            live_read.addr.eq(self.turn),
            self.hazard.eq(live_read.data),
        ]
        return m
