"""Figures in benchmarks/speed: medians, ratios, goals, tables, charts, and the options of the command."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.speed import floor, page, parts, soak, stack
from benchmarks.speed.chart import Bars, chart
from benchmarks.speed.loads import LOADS
from benchmarks.speed.options import RESULTS, parse
from benchmarks.speed.results import Results
from benchmarks.speed.rows import ROWS, Goal
from benchmarks.speed.scale import FULL, QUICK
from benchmarks.speed.servers import PEERS, RELAYED, REPEATED, TOWPATH

_ABOUT = {
    "date": "2026-11-22",
    "commit": "abc",
    "rounds": 3,
    "machine": {"cores": 2, "processor": "one", "memory_gib": 24, "kernel": "6.1", "file_system": "ext4"},
    "versions": {"nginx": "1.22"},
}


@pytest.fixture
def results() -> Results:
    """Three rounds, in the second of which the machine was half as fast, and one turn failed."""
    made = Results(_ABOUT, missing={"giftless": "no pip"})
    for number, (own, peer) in enumerate([(30.0, 10.0), (16.0, 5.0), (28.0, 10.0)]):
        made.add("get_1g", TOWPATH, number, own)
        made.add("get_1g", "nginx", number, peer)
    made.add("push_1g", TOWPATH, 0, 2.0)
    made.add("push_1g", "giftless", 0, 3.0)
    made.add("get_1g_4", TOWPATH, 0, 9.497)
    made.add("get_1g_4", "nginx", 0, 10.0)
    made.add("lock_create_0", TOWPATH, 0, 100.0)
    made.add("lock_create_0", TOWPATH, 2, 200.0)
    made.add("lock_create_100000", TOWPATH, 0, 80.0)
    made.add("lock_create_100000", TOWPATH, 2, 180.0)
    return made


def test_a_ratio_is_the_median_of_those_of_the_rounds(results: Results) -> None:
    """A slow round would shift the ratio of the medians, so the ratio is the median of the rounds' ratios."""
    assert results.median("get_1g", TOWPATH) == 28.0
    assert results.times_as_fast(ROWS["get_1g"], TOWPATH, "nginx") == pytest.approx(3.0)


def test_less_time_is_faster(results: Results) -> None:
    """A row of seconds has the inverse ratio."""
    assert results.times_as_fast(ROWS["push_1g"], TOWPATH, "giftless") == pytest.approx(1.5)


def test_a_goal_may_compare_two_rows_and_rounds_that_failed_are_left_out(results: Results) -> None:
    """As locks among 100,000 are compared with the first ones."""
    assert results.rounds("lock_create_0", TOWPATH) == [100.0, None, 200.0]
    [goal] = ROWS["lock_create_100000"].goals
    assert results.reached(ROWS["lock_create_100000"], goal) == pytest.approx(0.85)
    assert results.reached(ROWS["get_1g"], Goal(1.0, "lfs-test-server")) is None


def test_figures_are_kept(results: Results, tmp_path: Path) -> None:
    """The page is made from a file, so a file must return the results that were written into it."""
    file = tmp_path / "figures.json"
    results.write(file)
    assert Results.read(file) == results


def test_tables_have_medians_ratios_and_verdicts(results: Results) -> None:
    """The tables also name every server that is not compared or refused requests, and every failure."""
    results.refused = {"put_64k": {"giftless": 0.03}}
    results.failures = {"put_large": {"disk": "OSError: full"}}
    results.memory = {"batch": {TOWPATH: {"rest": {"own": 200.0, "postgres": 50.0}, "peak": {"own": 420.0}}}}
    told = page.tables(results)
    assert "| GET of 1 GiB, one stream | MB/s | 28 | 10 (3.00×) |" in told.replace("|  |", "|")
    assert "0.85× nginx: 3.00×, yes" in told
    assert "0.6× lfs-test-server: not measured" in told
    assert "0.95× nginx: 0.94×, **no**" in told
    assert "“lock a path, none stands”: 0.85×, yes" in told
    assert "**giftless is not compared**: no pip" in told
    assert "giftless refused up to 3.00% of the requests of `put_64k`" in told
    assert "disk (write, fsync) failed at the load `put_large`: OSError: full" in told
    assert "| batch | 200 → 420 | 50 → 0 | **no** |" in told


def test_the_page_keeps_what_people_wrote_into_it(results: Results, tmp_path: Path) -> None:
    """Only what is between the marks is written anew, and charts lie beside it."""
    file = tmp_path / "performance.md"
    page.write(results, file)
    file.write_text(f"Before.\n{file.read_text()}After.\n")
    once = file.read_text()
    page.write(results, file)
    assert file.read_text() == once
    assert once.startswith("Before.\n")
    assert once.endswith("After.\n")
    assert "(pictures/speed-transfers.svg)" in once
    assert (tmp_path / "pictures" / "speed-transfers.svg").exists()
    file.write_text("nothing of ours")
    with pytest.raises(ValueError, match="expected the lines"):
        page.write(results, file)


def test_a_chart_has_a_bar_for_each_value() -> None:
    """Twice as fast goes as far to the right as half as fast goes to the left."""
    drawn = ET.fromstring(chart("Title", [Bars("a & b", {"x": 2.0, "y": 0.5})], ["x", "y"], unit="×"))  # noqa: S314 - our own
    names = "{http://www.w3.org/2000/svg}"
    texts = [each.text for each in drawn.iter(f"{names}text")]
    assert texts[0] == "Title"
    assert {"a & b", "2.00×", "0.50×"} <= set(texts)
    right, left = list(drawn.iter(f"{names}rect"))[-2:]
    assert float(left.attrib["width"]) == pytest.approx(float(right.attrib["width"]), abs=0.2)
    assert float(left.attrib["x"]) < float(right.attrib["x"])


def test_a_chart_has_a_colour_for_each_peer() -> None:
    """The last of them too."""
    root = ET.fromstring(chart("all", [Bars("one", dict.fromkeys(PEERS, 1.5))], PEERS, unit="x"))  # noqa: S314 - our own
    bars = [each.get("fill") for each in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(set(bars)) == 1 + len(PEERS), "a colour is missing, or there twice"


def test_every_row_is_measured_by_one_load_on_servers_that_there_are() -> None:
    """Each row has one load, and goals name only measured rows and servers, so that no goal goes unchecked."""
    measured = [row for load in LOADS for row in load.rows]
    assert sorted(measured) == sorted(ROWS)
    servers = {load: set(load.servers) for load in LOADS}
    assert set().union(*servers.values()) <= {TOWPATH, RELAYED, REPEATED, *PEERS}
    by_row = {row: load.servers for load in LOADS for row in load.rows}
    for row in ROWS.values():
        for goal in row.goals:
            assert goal.of in by_row[row.key], row.key
            assert goal.than in by_row[goal.row or row.key], row.key


def test_samples_are_counted_by_package() -> None:
    """Ours by service, others by their first folder, and what has no folder by its file."""
    stacks = [
        "<module> (services/facade/__main__.py:1);answer (services/facade/objects/batch.py:20) 3",
        "run (asyncio/runners.py:1);encode (json/encoder.py:5) 4",
        "run (asyncio/runners.py:1);_run (threading.py:5) 1",
        " 7",
    ]
    seen = [found for stack in stacks if (found := parts.innermost(stack))]
    assert parts.shares(map(parts.package, seen)) == {"json": 0.5, "services.facade": 0.375, "threading": 0.125}
    assert parts.shares(seen, most=1) == {"encode (json/encoder.py:5)": 0.5}


def test_a_whole_run_is_what_the_page_is_made_of() -> None:
    """Only a whole run writes the page's figures, so that a quick or partial run cannot overwrite them."""
    whole, quick, some = parse([]), parse(["--quick"]), parse(["--only", "get_1g", "--rounds", "2"])
    assert (whole.scale, whole.rounds, whole.out, whole.is_whole) == (FULL, 5, RESULTS, True)
    assert whole.servers == (TOWPATH, RELAYED, REPEATED, *PEERS)
    assert (quick.scale, quick.rounds, quick.out, quick.is_whole) == (QUICK, 1, None, False)
    assert (some.rows, some.rounds, some.out) == (frozenset({"get_1g"}), 2, None)
    alone = parse(["--peers", "--out", "figures.json"])
    assert (alone.servers, alone.out) == ((TOWPATH, RELAYED, REPEATED), Path("figures.json"))
    assert whole.memory_of == (TOWPATH, RELAYED, *PEERS)
    assert parse(["--memory", "none"]).memory_of == ()
    own = parse(["--memory", "own"])
    assert (own.memory_of, own.servers, own.is_whole) == ((TOWPATH, RELAYED), whole.servers, True)


@pytest.mark.parametrize("arguments", [["--only", "nothing"], ["--peers", "nobody"], ["--rounds", "0"]])
def test_what_does_not_exist_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The command says what it takes instead."""
    with pytest.raises(SystemExit):
        parse(arguments)
    assert arguments[0] in capsys.readouterr().err


def test_an_hour_is_told_in_equal_parts() -> None:
    """A peak is in one part only, and the first part, in which all is still filling, is compared with nothing."""
    samples = [
        soak.Sample(float(second), {"services.facade": 100.0 + (second == 1000), "postgres": 50.0})
        for second in range(1, 3601)
    ]
    told = soak.parts(samples)
    assert [part["minutes"] for part in told] == [10, 20, 30, 40, 50, 60]
    assert [part["own_most"] for part in told] == [100, 101, 100, 100, 100, 100]
    assert {part["own"] for part in told} == {100}
    told[0]["own"] = 50
    assert "1.00×" in soak.table({"parts": told})


def test_the_stack_is_told_beside_towpath() -> None:
    """By the median of the ratios of the rounds."""
    up, alone = "`towpath up`", "`towpath up --facades 1`"
    rates = {"GET": {"the stack": [50.0, 20.0, 60.0], up: [100.0, 100.0, 100.0], alone: [50.0, 40.0, 50.0]}}
    [_, _, row] = stack.table({"rates": rates}).splitlines()
    assert row == "| GET | 50 | 100 (0.50×) | 50 (1.00×) |"


def test_frameworks_are_told_beside_towpath() -> None:
    """A reader must see the rate of each framework alone, and the share that Towpath has of it."""
    told = floor.table({"rates": {"uvicorn": 12_000.4, "Towpath": 3000.0}, "ratios": {"uvicorn": 0.25, "Towpath": 1.0}})
    assert "| uvicorn | 12,000 | 0.25× |" in told
