"""Asks the golden model what the hardware would answer: two sessions change places, and one leaves for a third."""

from unison.formats import Opcode, Residency
from unison.model.engine import Config, Engine
from unison.model.hazard import engine_writer, load_hazards
from unison.model.stream import make_event
from unison.params import Params


def hazards_from_counts(reached, completed, p):
    """h_Z by turn, equations (5) and (14), from what the host counted; 0 where no session got so far."""
    engine = Engine(p)
    return [
        engine.arithmetic.hazard(ended / begun) if begun else 0 for begun, ended in zip(reached, completed, strict=True)
    ]


def main():
    p = Params(sessions=4)
    engine = Engine(p, Config(capacity_sram=8000, capacity_hbm=9000, gap_prior=2_000_000))
    # 100 sessions were seen; 40 of them ended at turn 1, 30 at turn 2, the rest at turn 3.
    reached = [0, 100, 60, 30] + [0] * (p.turns - 4)
    completed = [0, 40, 30, 30] + [0] * (p.turns - 4)
    load_hazards(engine_writer(engine, p), hazards_from_counts(reached, completed, p), p)

    for event in (
        make_event(Opcode.ARRIVE_ANY, tokens=6000),
        make_event(Opcode.ARRIVE_ANY, tokens=5000),
        make_event(Opcode.GAP_START, slot=0, tokens=6500),
        make_event(Opcode.GAP_END, slot=0, operand=30_000_000),
        make_event(Opcode.GAP_START, slot=1, tokens=5200),
        make_event(Opcode.DMA_DONE),
        make_event(Opcode.GAP_END, slot=1, operand=400_000),
        make_event(Opcode.ARRIVE, slot=1, tokens=7000),
        make_event(Opcode.ARRIVE_ANY, tokens=8000),
    ):
        print(event)
        for answer in engine.step(*event).answers:
            print("   ", answer.kind.name, answer.fields)
    for slot, entry in enumerate(engine.entries):
        print(f"slot {slot}: {Residency(entry.residency).name}, turn {entry.turn}, {entry.tokens} tokens")


if __name__ == "__main__":
    main()
