"""Chooses windows of a stream worth seeing, and writes the saved view that GTKWave opens them with."""

from vcd.gtkw import GTKWSave

from unison.formats import AnswerKind, Opcode, Place, Residency
from unison.hdl.tide import TideAction
from unison.model.engine import Engine
from unison.sim.probe import engine_states

__all__ = ["first_events", "first_windows", "view_signals", "write_view"]

#: Events before and after the one that is to be seen.
BEFORE, AFTER = 2, 2


def first_events(stream):
    """The numbers of the first events that answer EVICT and MIGRATE, by kind; a kind that never comes is left out."""
    engine = Engine(stream.params, config=stream.config, hazards=stream.hazards)
    found = {}
    for number, event in enumerate(stream.events):
        for answer in engine.step(*event).answers:
            if answer.kind in (AnswerKind.EVICT, AnswerKind.MIGRATE):
                found.setdefault(answer.kind, number)
        if len(found) == 2:
            break
    return found


def first_windows(stream):
    """Pairs of event numbers, from and to, around the first EVICT and around the first MIGRATE of a stream.

    Raises
    ------
    ValueError
        If the stream has neither.
    """
    numbers = sorted(first_events(stream).values())
    if not numbers:
        raise ValueError("nothing is evicted or moved in this stream: give a window with --from and --to")
    windows = [[max(0, number - BEFORE), number + 1 + AFTER] for number in numbers]
    merged = windows[:1]
    for first, last in windows[1:]:
        if first <= merged[-1][1]:
            merged[-1][1] = last
        else:
            merged.append([first, last])
    return merged


def write_view(waves, p):
    """Writes the view of a wave file beside it, with the files that name the codes; returns its path."""
    filters = {}
    for name, codes in _codes(p).items():
        filters[name] = waves.with_name(f"{waves.stem}.{name}.txt")
        filters[name].write_text("".join(f"{code:x} {text}\n" for code, text in codes.items()))
    view = waves.with_suffix(".gtkw")
    with open(view, "w") as file:
        save = GTKWSave(file)
        save.dumpfile(str(waves), abspath=False)
        save.treeopen("unison.core.")
        save.signals_width(260)
        for group, signals in view_signals(p).items():
            with save.group(group):
                for path, width, alias, shown in signals:
                    name = path + (f"[{width - 1}:0]" if width > 1 else "")
                    filter_file = str(filters[shown]) if shown in filters else None
                    save.trace(name, alias, datafmt="hex" if filter_file else shown, translate_filter_file=filter_file)
    return view


def _codes(p):
    """Names by code, for each kind of code that a view shows."""
    enums = {"opcode": Opcode, "answer": AnswerKind, "place": Place, "residency": Residency, "tide": TideAction}
    return {name: {each.value: each.name for each in kind} for name, kind in enums.items()} | {
        "state": engine_states(p)
    }


def view_signals(p):
    """What a view shows: lists of (path, width, label, ``"hex"``, ``"dec"`` or a kind of ``_codes``) by group."""
    core, engine = "unison.core", "unison.core.engine"
    event_level, answer_level = p.event_depth.bit_length(), p.answer_depth.bit_length()
    state = (len(engine_states(p)) - 1).bit_length()
    key = p.live_score_bits + 1

    def extreme(name):
        path = f"{core}.scan.request__{name}"
        return [
            (f"{path}.valid", 1, f"{name} valid", "hex"),
            (f"{path}.slot", p.slot_bits, f"{name} slot", "dec"),
            (f"{path}.key", key, f"{name} key", "dec"),
        ]

    return {
        "Bus": [
            ("unison.clk", 1, None, "hex"),
            ("unison.rst", 1, None, "hex"),
            ("unison.psel", 1, None, "hex"),
            ("unison.penable", 1, None, "hex"),
            ("unison.pwrite", 1, None, "hex"),
            ("unison.paddr", 12, None, "hex"),
            ("unison.pwdata", 32, None, "hex"),
            ("unison.pstrb", 4, None, "hex"),
            ("unison.prdata", 32, None, "hex"),
            ("unison.pready", 1, None, "hex"),
            ("unison.pslverr", 1, None, "hex"),
            ("unison.irq", 1, None, "hex"),
        ],
        "FIFOs": [
            (f"{core}.event_fifo.level", event_level, "events queued", "dec"),
            (f"{core}.answer_fifo.level", answer_level, "answers queued", "dec"),
            (f"{engine}.answer__valid", 1, "answer valid", "hex"),
            (f"{engine}.answer__ready", 1, "answer ready", "hex"),
            (f"{engine}.answer__payload.kind", 4, "answer", "answer"),
            (f"{engine}.answer__payload.slot", 8, "answer slot", "dec"),
        ],
        "Engine": [
            (f"{engine}.event_taken", 1, "event taken", "hex"),
            (f"{engine}.retired", 1, "retired", "hex"),
            (f"{engine}.event.opcode", 4, "event", "opcode"),
            (f"{engine}.event.slot", 8, "event slot", "dec"),
            (f"{engine}.event.tokens", 20, "event tokens", "dec"),
            (f"{engine}.event.operand", 32, "event operand", "dec"),
            (f"{engine}.engine_state", state, "state", "state"),
            (f"{engine}.slot", p.slot_bits, "slot", "dec"),
            (f"{engine}.residency", 2, "residency", "residency"),
            (f"{engine}.found", 2, "found", "place"),
            (f"{engine}.placed", 2, "placed", "place"),
            (f"{core}.used_sram", p.capacity_bits, "SRAM used", "dec"),
            (f"{core}.used_hbm", p.capacity_bits, "HBM used", "dec"),
        ],
        "Scan": [
            (f"{core}.scan.request__start", 1, "start", "hex"),
            (f"{core}.scan.reading", 1, "reading", "hex"),
            (f"{core}.scan.slot", p.slot_bits, "slot read", "dec"),
            (f"{core}.scan.request__done", 1, "done", "hex"),
            (f"{core}.scan.score_enable", 1, "score valid", "hex"),
            (f"{core}.scan.score", p.live_score_bits, "score", "dec"),
            *extreme("absent"),
            *extreme("highest"),
            *extreme("lowest"),
        ],
        "Tide": [
            (f"{core}.dma_busy", 1, "DMA busy", "hex"),
            (f"{engine}.divider.quotient", 32, "budget", "dec"),
            (f"{engine}.promoted_tokens", 20, "tokens of p*", "dec"),
            (f"{engine}.demoted_tokens", 20, "tokens of d*", "dec"),
            (f"{engine}.tide.room", 1, "room", "hex"),
            (f"{engine}.tide.colder", 1, "p* below d*", "hex"),
            (f"{engine}.tide.pays_promotion", 1, "pays promotion", "hex"),
            (f"{engine}.tide.pays_swap", 1, "pays swap", "hex"),
            (f"{engine}.tide.holds", 1, "capacities hold", "hex"),
            (f"{engine}.tide.action", 2, "action", "tide"),
        ],
    }
