"""The paper's tables and figures on our traces, one function each: ``make(lab)`` gives a ``lab.Report``."""

from unison.model.paper import (
    capacity,
    comparison,
    components,
    dual,
    formats,
    hazards,
    polling,
    positioning,
    timeliness,
)
from unison.model.paper.lab import Artefact

__all__ = ["ARTEFACTS"]

#: Every artefact by its name, in the paper's order.
ARTEFACTS = {
    artefact.name: artefact
    for artefact in (
        Artefact("table1", "Table I: unified table against two private views", dual.dual),
        Artefact("fig4", "Fig. 4: Agent Serving Effectiveness over the session slots", capacity.effectiveness),
        Artefact("table2", "Table II: policies by trace", comparison.comparison),
        Artefact("fig5", "Fig. 5: scoring and tiering", components.components),
        Artefact("fig6", "Fig. 6: one signal left out", components.signals),
        Artefact("table3", "Table III: three axes of the hierarchy", capacity.hierarchy),
        Artefact("table4", "Table IV: five-fold held-out hazard table", hazards.folds),
        Artefact("fig7", "Fig. 7: hazard table learned from empty", hazards.learning_curve),
        Artefact("formats", "Fixed-point format sweep: ranking fidelity and drift", formats.formats),
        Artefact("table6", "Table VI: positioning", positioning.positioning),
        Artefact("timeliness", "Timeliness: decision latency against the gaps", timeliness.timeliness),
        Artefact("polling", "Polling: gaps from polled timestamps", polling.polling),
    )
}
