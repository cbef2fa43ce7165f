"""The page: verdict, maps, intervals, tables and the paper's artefacts in one HTML file, with CSV files beside it."""

import csv
import json
import string
from importlib import resources
from pathlib import Path

from unison.model.report.artefacts import read_artefacts
from unison.model.report.cells import CI_KEYS, read_results
from unison.model.report.markup import cell, row_head, table, text, wide
from unison.model.report.metrics import METRICS, readable
from unison.model.report.standings import LOSS, NOTHING, WIN, summarise

__all__ = ["write_report"]

_KEYS = ("load", "completion", "trace", "envelope", "policy")
_COMPLETIONS = {
    "explicit": "The end of a session is told, so that its memory can be given away at once.",
    "silent": "The end of a session is never told; it looks like a pause that does not end.",
}


def _change(ratio):
    """A ratio as a change in percent, in words."""
    change = (ratio - 1) * 100
    return f"{abs(change):.1f} % {'less' if change < 0 else 'more'}"


def _at(worst):
    return f"{worst[1]}, {worst[2]}"


def _badge(standing, summary):
    if standing.policy == summary.floor:
        return '<span class="badge">floor</span>'
    if not standing.causal:
        return '<span class="badge">knows the future</span>'
    if standing.cells < summary.places:
        return f'<span class="badge">{standing.cells} of {summary.places} cells</span>'
    if not standing.never_loses:
        return '<span class="badge bad">✗ can lose</span>'
    return f'<span class="badge {"good" if standing.mean < 1 else ""}">✓ never loses</span>'


def _degraded(names):
    if not names:
        return ""
    return f' <span class="degraded" tabindex="0" data-tip="degraded: {text(", ".join(names))}">†</span>'


def _headline(summary):
    floor = f"<b>{text(summary.floor)}</b>"
    best = summary.best
    if best is None:
        return f"<p class=headline>No causal policy was run in all {summary.places} cells; only {floor} is known.</p>"
    worst = f"{readable(best.worst[0], 'ratio')} × the floor ({text(_at(best.worst))})"
    if best.mean >= 1:
        claim = f"Nothing beats {floor} in the mean: the best ranking, <b>{text(best.policy)}</b>, costs "
    else:
        claim = f"<b>{text(best.policy)}</b> is the best ranking that knows only the past: a request costs "
    sentences = [
        f"{claim}{_change(best.mean)} than with {floor}, in the geometric mean of {summary.places} cells"
        + (f", and {_change(best.mean_lru)} than with plain LRU" if best.mean_lru and summary.floor != "lru" else "")
        + f". Its worst cell is {worst}."
    ]
    safe = summary.safe
    if best in safe:
        sentences.append("It never loses to the floor.")
    elif safe:
        sentences.append(
            f"It can lose; the best that never does is <b>{text(safe[0].policy)}</b>, "
            f"with {_change(safe[0].mean)} (worst cell {readable(safe[0].worst[0], 'ratio')} ×)."
        )
    else:
        sentences.append("No ranking that wins anything never loses to the floor.")
    return f"<p class=headline>{' '.join(sentences)}</p>"


def _tiles(summary):
    best, safe = summary.best, summary.safe
    ranked = [each for each in summary.standings if summary.is_ranked(each)]
    tiles = []
    if best:
        tiles += [
            (readable(best.mean, "ratio") + " ×", f"AMAT of {best.policy} over the floor’s, mean"),
            (f"{best.wins} / {best.ties} / {best.losses}", f"cells {best.policy} wins, ties, loses"),
        ]
        if best.attainment is not None:
            tiles.append((readable(best.attainment), "attained of what the best oracle saves over the floor, mean"))
    tiles += [
        (f"{len(safe)} of {len(ranked)}", "rankings win something and never lose to the floor"),
        (f"{len(summary.nothing)} of {summary.places}", "cells with nothing to win: no oracle gains 1 %"),
    ]
    return f"<ul class=tiles>{''.join(f'<li><b>{text(big)}</b>{text(small)}</li>' for big, small in tiles)}</ul>"


#: Reasons of the evaluation's verdicts in words.
_WHY = {
    "nothing to win": "there is nothing to win",
    "loss": "nobody costs less",
    "small": "the best saves less than 1 %",
    "unsure": "the best may be so by chance",
    "alone": "nobody was compared with it",
}


def _advice(winner, told):
    """The evaluation's own advice where it gave one, as it knows the resamples."""
    if told is None:
        return winner.advice
    return f"use {told['policy']}" if told["reason"] == "win" else f"{told['floor']} is enough: {_WHY[told['reason']]}"


def _told(meta, summary):
    """The verdicts that the evaluation wrote on a load and completion, of its first seed, by trace."""
    told = {}
    for each in meta.get("verdicts", ()):
        if (each["load"], each["completion"]) == (summary.load, summary.completion):
            told.setdefault(each["trace"], each)
    return told


def _winners(summary, told):
    head = ["trace", "best policy", "AMAT / floor", "worst envelope", "best oracle / floor", "attainment"]
    head += ["sure cells", "nothing to win", "advice"]
    rows = []
    for each in summary.winners:
        ratio, _, envelope = each.worst
        rows.append(
            [
                row_head(each.trace),
                cell(each.policy, note=_degraded(each.degraded)),
                cell(each.mean, "ratio"),
                cell(ratio, "ratio", note=f" <small>{text(envelope)}</small>"),
                cell(each.bound, "ratio"),
                cell(each.attainment),
                cell(f"{each.sure} of {each.judged}" if each.judged else None),
                cell(f"{each.nothing} of {each.cells}"),
                wide(_advice(each, told.get(each.trace))),
            ]
        )
    words = "".join(f"<dt>{text(trace)}</dt><dd>{text(each['text'])}</dd>" for trace, each in told.items())
    return table("Which policy wins on which trace", head, rows) + (f"<dl>{words}</dl>" if words else "")


def _standings(summary):
    head = ["policy", "verdict", "AMAT / floor", "worst cell", "where", "wins", "ties", "losses"]
    head += ["AMAT / LRU", "worst / LRU", "attainment"]
    rows = []
    for each in summary.standings:
        row = [
            row_head(each.policy, _degraded(each.degraded)),
            f"<td>{_badge(each, summary)}</td>",
            cell(each.mean, "ratio"),
            cell(each.worst[0], "ratio"),
            cell(_at(each.worst)),
            *(cell(count) for count in (each.wins, each.ties, each.losses)),
            cell(each.mean_lru, "ratio"),
            cell(each.worst_lru and each.worst_lru[0], "ratio"),
            cell(each.attainment),
        ]
        rows.append(row)
    return table("Who never loses to the floor", head, rows)


def _verdict(summary, several_loads, meta):
    title = f"{summary.completion} completion" + (f", load {summary.load}" if several_loads else "")
    safe_names = ", ".join(each.policy for each in summary.safe)
    return f"""<div class="verdict" data-completion="{text(summary.completion)}" data-load="{text(summary.load)}">
<h3>{text(title[0].upper() + title[1:])}</h3>
<p class="caption">{text(_COMPLETIONS.get(summary.completion, ""))}</p>
{_headline(summary)}
{_tiles(summary)}
<h4>Which policy wins on which trace</h4>
<p class="caption">The causal policy with the lowest geometric mean of AMAT over the floor’s across the envelopes. It is
chosen with hindsight, trace by trace, so it flatters: a deployment has one setting for all, as in the table below.
<i>Sure cells</i>: the confidence interval of AMAT over the floor’s lies below 1. † degraded: the trace lacks a hint
that the policy needs. <a href="winners.csv">winners.csv</a></p>
{_winners(summary, _told(meta, summary))}
<h4>Who never loses to the floor</h4>
<p class="caption">Floor: {text(summary.floor)}. Means are geometric, over {summary.places} cells; a cell is won at or
below {WIN} × the floor’s AMAT and lost above {LOSS} ×. Attainment: mean over the cells in which there is something to
win. Never loses and wins something: {text(safe_names or "nobody")}. <a href="policies.csv">policies.csv</a></p>
{_standings(summary)}
</div>"""


_HOLDS = {
    True: '<td data-value="1"><span class="badge good">✓ holds</span></td>',
    False: '<td data-value="-1"><span class="badge bad">✗ does not hold</span></td>',
    None: '<td data-value="0">–</td>',
}


def _claims(claims):
    return [
        [f'<td class="wide">{text(claim)}</td>', cell(paper), wide(ours), _HOLDS[holds]]
        for claim, paper, ours, holds in claims
    ]


def _artefact(artefact):
    head = list(artefact.columns.values())
    rows = [[cell(row.get(key)) for key in artefact.columns] for row in artefact.rows]
    parts = [f'<article id="paper-{text(artefact.name)}"><h3>{text(artefact.title)}</h3>']
    how = []
    if artefact.command:
        took = f", {artefact.seconds:,.0f} s" if artefact.seconds else ""
        how.append(f"<code>{text(artefact.command)}</code>{took}.")
    if artefact.traces:
        sizes = (f"{each['name']} ({each['sessions']:,} sessions, {each['turns']:,} turns)" for each in artefact.traces)
        how.append(f"Traces: {text(', '.join(sizes))}.")
    how += [*map(text, artefact.notes), f'<a href="paper-{artefact.name}.csv">paper-{text(artefact.name)}.csv</a>']
    parts.append(f'<p class="caption">{" ".join(how)}</p>')
    if artefact.claims:
        claims = _claims(artefact.claims)
        parts.append(table(f"{artefact.title}: claims", ["claim", "paper", "here", "verdict"], claims))
    if artefact.chart:
        parts.append(f'<figure data-chart="{text(artefact.name)}"></figure>')
    if rows:
        parts.append(table(artefact.title, head, rows))
    return "\n".join([*parts, "</article>"])


def _paper(artefacts):
    if not artefacts:
        return "<p>None was found: the commands that compute them write JSON files, which are shown here.</p>"
    links = " ".join(f'<li><a href="#paper-{text(each.name)}">{text(each.title)}</a></li>' for each in artefacts)
    claims = [claim for each in artefacts for claim in each.claims]
    holds = [claim[-1] for claim in claims]
    intro = (
        '<p class="caption">The paper’s own traces are not public; its numbers stand beside ours as a reference, not '
        "as a target that must be met on other traces.</p>"
    )
    if claims:
        intro = (
            f"<p>Claims checked: {len(claims)}. Hold here: <b>{holds.count(True)}</b>. "
            f"Do not: <b>{holds.count(False)}</b>. Figures without a yes or no: {holds.count(None)}.</p>{intro}"
        )
    return f'{intro}<ul class="contents">{links}</ul>' + "\n".join(map(_artefact, artefacts))


_CAVEATS = (
    "Capacity of an envelope: the trace’s mean footprint of busy sessions plus a share f of that of paused ones, from "
    "f = 0.20 (edge-tight) to 0.95 (cxl). Busy sessions can fill memory for a while, and then a request bypasses it "
    "under every policy.",
    "No oracle here is a true bound: with two tiers, sizes and bypass the optimum is not known. A cell’s oracle is "
    "the best of {oracles}; there is nothing to win where its AMAT is above {nothing} of the floor’s.",
    "Confidence intervals say how much another draw of sessions of the same workload may change a number, and nothing "
    "about another workload. With several seeds, numbers and ends of intervals are means over seeds.",
    "† A degraded policy lacks a hint on that trace (tools, roles, a step graph) and does what its summary says.",
)


def _few(names, most=6):
    """The first of some names, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _trace_table(traces):
    head = ["trace", "from", "sessions", "turns", "starts", "concurrency (sessions)", "busy footprint (tokens)"]
    head += ["paused footprint (tokens)", "new tokens told", "tools", "roles"]
    keys = ("from", "sessions", "turns", "arrivals", "concurrency", "busy_tokens", "paused_tokens")
    rows = [
        [
            row_head(name),
            *(cell(facts.get(key)) for key in keys),
            cell(facts.get("new_tokens_known"), "share"),
            *(wide(_few(facts.get(key) or ())) for key in ("tools", "roles")),
        ]
        for name, facts in traces.items()
    ]
    return table("Traces", head, rows)


def _method(results):
    meta = results.meta
    facts = {
        "command": meta.get("command", "unison eval"),
        "traces": ", ".join(results.names("trace")),
        "envelopes": ", ".join(results.names("envelope")),
        "loads": "; ".join(results.names("load")),
        "seeds": ", ".join(dict.fromkeys(str(each.get("seed", 0)) for each in results.raw)),
        "cells": f"{len(results.raw):,}, of {len(results.names('policy'))} policies",
    }
    facts |= {key: value for key, value in meta.items() if isinstance(value, str | int | float)}
    if isinstance(meta.get("tools"), dict):
        facts["tools"] = ", ".join(f"{name} {version}" for name, version in meta["tools"].items() if version)
    items = "".join(f"<dt>{text(key.replace('_', ' '))}</dt><dd>{text(value)}</dd>" for key, value in facts.items())
    traces = f"<h3>Traces</h3>{_trace_table(meta['traces'])}" if isinstance(meta.get("traces"), dict) else ""
    caveats = [each.format(oracles=", ".join(results.oracles), nothing=NOTHING) for each in _CAVEATS]
    metrics = "".join(f"<dt>{text(each.label)}</dt><dd>{text(each.text)}</dd>" for each in METRICS.values())
    return (
        f"<h3>What was run</h3><dl>{items}</dl>{traces}<h3>What to keep in mind</h3><ul>"
        + "".join(f"<li>{text(caveat)}</li>" for caveat in (*meta.get("assumptions", ()), *caveats))
        + f"</ul><h3>Metrics</h3><dl>{metrics}</dl>"
    )


def _packed(value):
    return None if value is None else float(f"{value:.6g}")


def _data(results, summaries, artefacts):
    """What the page's script draws: the cells by column, names as indices."""
    names = {key: results.names(key) for key in _KEYS}
    order = {key: {name: index for index, name in enumerate(values)} for key, values in names.items()}
    columns = {key: [order[key][getattr(each, key)] for each in results.cells] for key in _KEYS}
    known = [key for key in METRICS if any(each.values[key] is not None for each in results.cells)]
    for key in known:
        columns[key] = [_packed(each.values[key]) for each in results.cells]
    for key in known:
        ends = [each.intervals.get(key) for each in results.cells]
        if any(ends):
            columns[f"{key}_ci"] = [pair and [_packed(end) for end in pair] for pair in ends]
    columns["degraded"] = [", ".join(each.degraded) for each in results.cells]
    policies = {}
    for name in names["policy"]:
        policies[name] = {"causal": results.is_causal(name), "summary": results.policy(name).get("summary", "")}
    first = summaries[0]
    ranked = [each.policy for each in (first.best, *first.safe[:1]) if each]
    wanted = [*ranked, "unison", "spear", first.floor]
    oracles = [each.policy for each in first.standings if each.policy in results.oracles]
    chosen = [name for name in dict.fromkeys([*wanted, *oracles[:1]]) if name in policies]
    return {
        "names": names,
        "metrics": {key: vars(METRICS[key]) for key in known},
        "policies": policies,
        "floors": results.floors,
        "chosen": chosen[:5],
        "nothing": [[each.load, each.completion, *place] for each in summaries for place in sorted(each.nothing)],
        "columns": columns,
        "charts": {
            each.name: {**each.chart, "title": each.title, "labels": each.columns, "rows": each.rows}
            for each in artefacts
            if each.chart
        },
    }


def _summaries(results):
    """Of every load and completion; the load with most cells, and explicit completion, first."""
    sizes = {load: sum(each.load == load for each in results.cells) for load in results.names("load")}
    points = sorted(results.groups, key=lambda point: (-sizes[point[0]], list(_COMPLETIONS).index(point[1])))
    return [summarise(results, *point) for point in points]


def _asset(name):
    return resources.files("unison.model.report").joinpath(name).read_text(encoding="utf-8")


def _render(results, summaries, artefacts):
    several = len(results.names("load")) > 1
    data = json.dumps(_data(results, summaries, artefacts), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    counts = [(len(results.names(key)), plural) for key, plural in (("policy", "policies"), ("trace", "traces"))]
    counts.append((len(results.names("envelope")), "memory sizes"))
    lead = ", ".join(f"{count} {plural}" for count, plural in counts)
    return string.Template(_asset("page.html")).substitute(
        style=_asset("page.css"),
        script=_asset("page.js"),
        completion=text(summaries[0].completion),
        load=text(summaries[0].load),
        lead=f"{lead}: replayed event by event, and judged by the mean cost of a request (AMAT, mean access cost).",
        verdict="\n".join(_verdict(each, several, results.meta) for each in summaries),
        paper=_paper(artefacts),
        method=_method(results),
        # No text of the data can then end the element that holds it.
        data=data.replace("<", "\\u003c"),
    )


def _write_csv(path, head, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


def _flat(value):
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _write_tables(folder, results, summaries, artefacts):
    """The CSV files; returns their paths."""
    head = list(dict.fromkeys(key for each in results.raw for key in each if key not in CI_KEYS))
    intervals = [key for key in CI_KEYS if any(key in each for each in results.raw)]
    ends = [f"{key}_{end}" for key in intervals for end in ("low", "high")]
    rows = [
        [_flat(each.get(key)) for key in head] + [end for key in intervals for end in each.get(key) or (None, None)]
        for each in results.raw
    ]
    tables = {"cells": ([*head, *ends], rows)}
    for name, attribute in (("policies", "standings"), ("winners", "winners")):
        records = [
            {"load": summary.load, "completion": summary.completion, **vars(row)}
            for summary in summaries
            for row in getattr(summary, attribute)
        ]
        tables[name] = (records[:1] and records[0], [map(_flat, record.values()) for record in records])
    for each in artefacts:
        rows = [[_flat(row.get(key)) for key in each.columns] for row in each.rows]
        tables[f"paper-{each.name}"] = (each.columns, rows)
    paths = []
    for name, (fields, records) in tables.items():
        paths.append(folder / f"{name}.csv")
        _write_csv(paths[-1], fields, records)
    return paths


def write_report(output, results, paper=None):
    """Writes the page and, beside it, cells.csv, policies.csv, winners.csv and a CSV an artefact.

    Parameters
    ----------
    output, results : path
        The page to write, and results.json.
    paper : path, optional
        Folder of the paper's artefacts, JSON files as in ``unison.model.report.artefacts``; need not exist.

    Returns
    -------
    list of Path
        The files written, the page first.

    Raises
    ------
    ValueError
        If the results or an artefact are not what they should be.
    """
    output = Path(output)
    results = read_results(Path(results))
    artefacts = read_artefacts(Path(paper)) if paper else []
    summaries = _summaries(results)
    page = _render(results, summaries, artefacts)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page, encoding="utf-8")
    return [output, *_write_tables(output.parent, results, summaries, artefacts)]
