"""The report: one page that needs nothing but itself."""

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from trials import study_of, trial_of

from coldstream.evaluation import report as report_module
from coldstream.evaluation.metrics import Spread
from coldstream.evaluation.plots import percentile_over_time, recall_over_time
from coldstream.evaluation.report import report, write_report
from coldstream.evaluation.study import Facts, Published, Study
from coldstream.evaluation.tables import metrics_of, paper_table

VOID = {"meta", "br", "link", "img", "input", "hr"}
EVIL = "<script>alert('π & $x_1$')</script>"


class Page(HTMLParser):
    """Every tag closed in its turn; ids, links and words collected."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.words: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags[tag] += 1
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.words.setdefault(self.open[-1], []).append(data.strip())


@pytest.fixture(scope="module")
def text() -> str:
    published = {"ease": Published(Spread(0.035, 0.008), Spread(32.55, 0.023))}
    studies = [study_of(["ours", "ease", "popularity"], published=published), study_of(["ifm"], seeds=1, name="clicks")]
    return report("Two studies", studies)


def test_it_is_well_formed_and_names_nothing_twice(text: str) -> None:
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert page.words["title"] == ["Two studies"]
    ids = [value for name, value in page.attributes if name == "id"]
    assert ids
    assert len(ids) == len(set(ids))


def test_it_refers_to_nothing_outside_itself(text: str) -> None:
    for name, value in Page(text).attributes:
        assert name not in ("src", "srcset", "data", "action")
        if not name.startswith("xmlns"):
            assert "//" not in value
        if name.endswith("href"):
            assert value.startswith("#")
    assert not re.search(r"https?://", re.sub(r'xmlns(:\w+)?="[^"]*"', "", text))
    assert "@import" not in text
    assert all(place.startswith("#") for place in re.findall(r"url\(([^)]*)\)", text))


def test_it_says_what_was_run(text: str) -> None:
    prose = " ".join(text.split())
    assert "10,000 events of 300 users with 80 items, in order of time; 3 methods, 2 seeds each." in prose
    assert "The first 2,000 events trained each method and the next 1,000 were learned one by one" in prose
    assert "1 method, 1 seed each." in prose
    assert "without those the user already had" in prose
    made_with = Page(text).words["dt"]
    assert made_with[-5:] == ["coldstream", "numpy", "numba", "Python", "machine"]


def test_sections_that_do_not_apply_are_absent(text: str) -> None:
    two, one = text.split("<h2>clicks</h2>")
    assert Page(two + "</section></main></body></html>").words["h3"] == [
        "Results",
        "Beside the published figures",
        "Over time",
        "First-time users and items",
        "Method against method",
        "Fields in use",
        "Time",
    ]
    assert Page("<html><body><main><section>" + one).words["h3"] == [
        "Results",
        "Over time",
        "First-time users and items",
        "Fields in use",
        "Time",
        "Made with",
    ]
    facts = Facts("d", 10, 2, 2, True)
    bare = report("bare", [Study(facts, 1, 5, {"a": {1: trial_of([0, 3])}, "b": {1: trial_of([0, 4])}})])
    assert "First-time" not in bare
    assert "All other pairs" not in bare
    assert "every item is a candidate" in bare


def cells(text: str, method: str) -> list[str]:
    """The cells of the first row of a method."""
    line = re.search(rf'<th scope="row">{method}</th>(.*?)</tr>', text, re.DOTALL)[1]
    return re.findall(r"<td>(.*?)</td>", line, re.DOTALL)


def test_means_and_deviations_over_seeds_stand_in_the_table_and_the_best_is_bold() -> None:
    good = {1: trial_of([0] * 6 + [50] * 4), 2: trial_of([0] * 8 + [50] * 2)}
    poor = {1: trial_of([0] * 2 + [50] * 8), 2: trial_of([0] * 2 + [50] * 8)}
    text = report("x", [Study(Facts("d", 14, 2, 2, False), 10, 1, {"poor": poor, "good": good})])
    assert cells(text, "good")[0] == "<b>0.7000</b> <small>± 0.1000</small>"
    assert cells(text, "poor")[0] == "0.2000 <small>± 0.0000</small>"
    # MPR: lower is better. 100 · 50 / 99 of 3 and of 8 in 10.
    assert cells(text, "good")[2] == "<b>15.15</b> <small>± 5.05</small>"
    assert cells(text, "poor")[2].startswith("40.40")
    # Both recommended as much: neither is shown as worse.
    assert cells(text, "good")[5] == cells(text, "poor")[5] == "<b>0.250</b> <small>± 0.000</small>"
    assert "good − poor" in text
    assert "poor − good" not in text


def test_pairs_of_the_best_come_first_and_the_others_are_folded(text: str) -> None:
    shown, folded = text.split("<details>")
    assert 'row">ours − ease</th>' in shown
    assert 'row">ours − popularity</th>' in shown
    assert "ease − popularity" not in shown
    assert "All other pairs (1)" in folded
    assert 'row">ease − popularity</th>' in folded
    assert "&lt; 0.0001" in shown


def test_a_malicious_name_is_only_a_name() -> None:
    study = study_of([EVIL, "_hidden", "x" * 300], seeds=2, name=EVIL)
    page = Page(report(EVIL, [study]))
    assert page.tags["script"] == 0
    assert page.words["title"] == [EVIL]
    assert page.words["h2"][0] == EVIL
    # Once per figure, in full letters: neither markup nor a formula, and too short to be cut… or cut where it is too long.
    assert page.words["text"].count(EVIL[:31] + "…") == 2
    assert page.words["text"].count("_hidden") == 2
    assert page.words["text"].count("x" * 31 + "…") == 2


@pytest.mark.parametrize("draw", [recall_over_time, percentile_over_time])
def test_plots_are_xml_with_a_line_per_method_and_equal_bytes_for_equal_input(draw) -> None:
    study = study_of([f"m{n}" for n in range(8)], seeds=2)
    svg = draw(study)
    assert svg == draw(study_of([f"m{n}" for n in range(8)], seeds=2))
    ElementTree.fromstring(svg)
    assert all(f">m{n}</text>" in svg for n in range(8))
    assert svg.count("fill-opacity: 0.22") == 8
    assert "rdf:" not in svg
    assert "fill-opacity: 0.22" not in draw(study_of(["alone"], seeds=1))


def test_names_stand_in_the_order_in_which_the_lines_end() -> None:
    svg = recall_over_time(study_of(["good", "fair", "poor"]))
    assert svg.index(">good<") < svg.index(">fair<") < svg.index(">poor<")
    svg = percentile_over_time(study_of(["good", "fair", "poor"]))
    assert svg.index(">poor<") < svg.index(">fair<") < svg.index(">good<")


def test_the_shortest_study_still_makes_a_report() -> None:
    for ranks in ([0.0], [3.0], [0.0, 0.0], [50.0] * 3):
        study = Study(Facts("d", len(ranks), 1, 1, False), 1, 100, {"a": {1: trial_of(ranks)}, "b": {1: trial_of(ranks)}})
        page = Page(report("short", [study]))
        assert page.tags["svg"] == 2
        assert "1.0000" in page.words["td"]  # McNemar of two equals


def test_equal_studies_give_equal_pages(text: str) -> None:
    assert report("same", [study_of(["a", "b"])]) == report("same", [study_of(["a", "b"])])


def test_an_interrupted_report_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(study: Study) -> str:
        raise KeyboardInterrupt

    path = tmp_path / "report.html"
    with monkeypatch.context() as patched:
        patched.setattr(report_module, "recall_over_time", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_report(path, "x", [study_of(["a"])])
    assert list(tmp_path.iterdir()) == []
    write_report(path, "x", [study_of(["a"])])
    assert Page(path.read_text(encoding="utf-8")).words["title"] == ["x"]


def test_newcomers_of_one_side_get_the_columns_of_one_side() -> None:
    study = study_of(["a", "b"])
    users_only = {
        method: {seed: replace(trial, new_item=np.zeros_like(trial.new_item)) for seed, trial in seeds.items()}
        for method, seeds in study.trials.items()
    }
    headings = Page(report("x", [replace(study, trials=users_only)])).words["th"]
    assert "MPR %, new users" in headings
    assert "MPR %, new items" not in headings


def test_the_papers_table_holds_what_was_published_what_is_measured_and_the_times() -> None:
    published = {"ifm": Published(Spread(0.035, 0.008), Spread(32.55, 0.023))}
    study = study_of(["ifm", "popularity"], published=published)
    table = paper_table(study, metrics_of(study))
    sides = [f"{figure}, {where}" for figure in ("recall@10/100", "MPR %") for where in ("published", "here")]
    assert table.headings == ["method", *sides, "recommend, µs", "learn, µs"]
    ((method, row),) = table.rows
    assert method == "ifm"
    assert (row[0].text, row[0].spread) == ("0.035", "± 0.008")
    assert (row[2].text, row[2].spread) == ("32.55", "± 0.02")
    assert row[4].text == "254.5"  # the mean of 5, 6, … 504
