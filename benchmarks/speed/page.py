"""The tables and charts of docs/performance.md and its notes, from the figures: `python -m benchmarks.speed.page`."""

import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.speed import floor, parts, soak, stack
from benchmarks.speed.chart import Bars, chart
from benchmarks.speed.options import RESULTS
from benchmarks.speed.results import Results
from benchmarks.speed.rows import GROUPS, MAX_MEMORY_MIB, Goal, Group, Row
from benchmarks.speed.servers import PEERS, RELAYED, REPEATED, TOWPATH

_DOCS = Path(__file__).parents[2] / "docs"
PAGE = _DOCS / "performance.md"
NOTES = _DOCS / "performance-notes.md"
_PICTURES = "pictures"
_BEGIN, _END = "<!-- speed: begin (python -m benchmarks.speed.page writes what follows) -->", "<!-- speed: end -->"
_FRAME = f"# Performance\n\n{_BEGIN}\n{_END}\n"
_OWN = (TOWPATH, REPEATED, RELAYED)
_ALL = (*_OWN, *PEERS)
_NAMES = {
    TOWPATH: "Towpath",
    REPEATED: "Towpath, asked again",
    RELAYED: "Towpath, relayed",
    "lfsx": "LFSX",
    "disk": "disk (write, fsync)",
}

_NOTED = (
    (
        soak.SOAK,
        soak.table,
        "An hour of load",
        "Memory in MiB, as above, medians of each part of the time, while loads of each kind were put on Towpath in"
        " turn, {loops} times, with new objects and locks each time, at commit `{about[commit]}`"
        " (`python -m benchmarks.speed.soak`).",
    ),
    (
        parts.PARTS,
        parts.table,
        "What a request is made of",
        "CPU time of one request in each process, at commit `{about[commit]}`, and the packages that were found to have"
        " Python's interpreter; what is done without it, such as hashing and writing, is not among them"
        " (`python -m benchmarks.speed.parts`).",
    ),
    (
        floor.FLOOR,
        floor.table,
        "What the frameworks take by themselves",
        "How many requests of the size of a batch of one are answered over 16 connections where nothing is done for"
        " them: medians of {rounds} rounds, and how much of that Towpath's batches of one reach, at commit"
        " `{about[commit]}` (`python -m benchmarks.speed.floor`).",
    ),
    (
        stack.STACK,
        stack.table,
        "The stack beside `towpath up`",
        "Over 16 connections, asked in turn, without a proxy. In brackets, how many times as fast the stack is: medians"
        " of {rounds} rounds, at commit `{about[commit]}` (`python -m benchmarks.speed.stack`).",
    ),
)


def tables(results: Results) -> str:
    """Return all tables, in Markdown."""
    return "\n\n".join(_sections(results, charts=()))


def write(results: Results, page: Path = PAGE) -> None:
    """Write the charts beside the page, and the tables into it, between their marks; the rest of it stays."""
    pictures = page.parent / _PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    drawn = []
    for group in GROUPS:
        if bars := _bars(results, group):
            series = [_NAMES.get(peer, peer) for peer in PEERS]
            title = f"{group.title}: how many times as fast Towpath is"
            (pictures / f"speed-{group.key}.svg").write_text(chart(title, bars, series, unit="×"))
            drawn.append(group.key)
    _fill(page, _sections(results, drawn))


def write_notes(notes: Path = NOTES) -> None:
    """Write what is measured beside the rows into the notes, between their marks; the rest of them stays."""
    _fill(notes, _noted())


def _fill(page: Path, sections: Iterable[str]) -> None:
    text = page.read_text() if page.exists() else _FRAME
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{page}: expected the lines {_BEGIN!r} and {_END!r}")
    page.write_text("\n\n".join([f"{before}{_BEGIN}", *sections, f"{_END}{after}"]))


def _noted() -> Iterable[str]:
    for file, table, title, text in _NOTED:
        if file.exists():
            told = json.loads(file.read_text())
            yield f"## {title}"
            yield text.format(**told)
            yield table(told)


def _sections(results: Results, charts: Sequence[str]) -> Iterable[str]:
    yield _about(results)
    for group in GROUPS:
        if table := _table(results, group):
            yield f"## {group.title}"
            if group.key in charts:
                yield f"![How many times as fast Towpath is]({_PICTURES}/speed-{group.key}.svg)"
            yield table
    if results.memory:
        yield "## Memory"
        yield _memory(results)
    if notes := _notes(results):
        yield "## What went wrong"
        yield notes


def _about(results: Results) -> str:
    about = results.about
    machine, versions = about["machine"], about["versions"]
    others = "; ".join(f"{name}: {version}" for name, version in versions.items() if name not in _OWN)
    lines = [
        f"Measured on {about['date']} at commit `{about['commit']}`, on {machine['cores']} cores"
        f" ({machine['processor']}), {machine['memory_gib']} GiB of memory, Linux {machine['kernel']},"
        f" {machine['file_system']}; clients and servers share them. {_rounds(about['rounds'])} In brackets,"
        " how many times as fast Towpath is: the median of the ratios of the rounds. A goal is such a ratio too.",
        f"With {others}.",
    ]
    lines += [f"**{name} is not compared**: {reason}" for name, reason in results.missing.items()]
    return "\n\n".join(lines)


def _rounds(number: int) -> str:
    if number == 1:
        return "Each figure is of one round: no median, so no more than a hint."
    return f"Figures are medians of {number} rounds."


def _table(results: Results, group: Group) -> str:
    rows = [row for row in group.rows if row.key in results.figures]
    servers = [name for name in _ALL if any(results.median(row.key, name) is not None for row in rows)]
    if not rows:
        return ""
    heads = ["", "unit", *(_NAMES.get(name, name) for name in servers), "goal: reached"]
    lines = [_line(heads), _line(["---"] * 2 + ["---:"] * len(servers) + ["---"])]
    for row in rows:
        cells = [_cell(results, row, name) for name in servers]
        lines.append(_line([row.title, row.unit, *cells, "<br>".join(_verdicts(results, row))]))
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(results: Results, row: Row, server: str) -> str:
    figure = results.median(row.key, server)
    if figure is None:
        return ""
    ratio = results.times_as_fast(row, TOWPATH, server) if server != TOWPATH else None
    return _number(figure) + (f" ({ratio:.2f}×)" if ratio is not None else "")


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def _verdicts(results: Results, row: Row) -> Iterable[str]:
    for goal in row.goals:
        yield f"{_wording(goal)}: {_verdict(results.reached(row, goal), goal.at_least)}"
    if row.at_most is not None and (figure := results.median(row.key, TOWPATH)) is not None:
        yield f"under {row.at_most:g} {row.unit}: {'yes' if figure < row.at_most else '**no**'}"


def _wording(goal: Goal) -> str:
    of = "relayed, " if goal.of == RELAYED else ""
    if goal.row is None:
        return f"{of}{goal.at_least:g}× {goal.than}"
    others = next(each for group in GROUPS for each in group.rows if each.key == goal.row)
    whose = "“" if goal.than == TOWPATH else f"{goal.than}, “"
    return f"{of}{goal.at_least:g}× {whose}{others.title}”"


def _verdict(reached: float | None, at_least: float) -> str:
    if reached is None:
        return "not measured"
    # Rounded down: 0.997 would look like the 1.00 that it does not reach.
    return f"{math.floor(reached * 100) / 100:.2f}×, {'yes' if reached >= at_least else '**no**'}"


def _bars(results: Results, group: Group) -> list[Bars]:
    found = []
    for row in group.rows:
        ratios = {_NAMES.get(peer, peer): results.times_as_fast(row, TOWPATH, peer) for peer in PEERS}
        values = {peer: ratio for peer, ratio in ratios.items() if ratio is not None}
        if values:
            found.append(Bars(row.title, values))
    return found


def _memory(results: Results) -> str:
    lines = [
        "Proportional set sizes of all processes of a server, in MiB, at rest and at the peak of each load; Towpath's"
        f" Postgres aside. The goal is under {MAX_MEMORY_MIB:.0f} MiB.\n",
    ]
    servers = [name for name in _ALL if any(name in load and load[name]["rest"] for load in results.memory.values())]
    heads = [part for name in servers for part in _memory_heads(name)]
    lines += [_line(["load", *heads, "goal reached"]), _line(["---", *["---:"] * len(heads), "---"])]
    for load, told in results.memory.items():
        cells = [cell for name in servers for cell in _memory_cells(name, told.get(name, {}))]
        peaks = [told[name]["peak"]["own"] for name in (TOWPATH, RELAYED) if name in told]
        verdict = "" if not peaks else "yes" if max(peaks) < MAX_MEMORY_MIB else "**no**"
        lines.append(_line([load.replace("_", " "), *cells, verdict]))
    return "\n".join(lines)


def _memory_heads(server: str) -> list[str]:
    name = _NAMES.get(server, server)
    return [name, f"{name}: Postgres"] if server in (TOWPATH, RELAYED) else [name]


def _memory_cells(server: str, told: dict[str, dict[str, float]]) -> list[str]:
    parts_of = ("own", "postgres") if server in (TOWPATH, RELAYED) else ("own",)
    return [f"{told['rest'].get(part, 0):.0f} → {told['peak'].get(part, 0):.0f}" if told else "" for part in parts_of]


def _notes(results: Results) -> str:
    lines = [
        f"* {_NAMES.get(server, server)} refused up to {part:.2%} of the requests of `{row}`; they are not counted."
        for row, refused in results.refused.items()
        for server, part in refused.items()
    ]
    lines += [
        f"* {_NAMES.get(server, server)} failed at the load `{load}`: {' '.join(reason.split())[:300]}"
        for load, failed in results.failures.items()
        for server, reason in failed.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    write(Results.read(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS))
    write_notes()
