"""`coldstream evaluate`: evaluate any methods on any stream, test-then-learn."""

import argparse
from pathlib import Path
from typing import Any

from coldstream.cli.engines import add_engine, add_learners, engine_of
from coldstream.cli.numbers import whole
from coldstream.cli.options import add_jobs, add_stream, source_of
from coldstream.cli.screen import OUT, say_notes, show, trials_bar
from coldstream.errors import Interrupted, InvalidInput
from coldstream.evaluation import tables
from coldstream.evaluation.fields_in_use import fields_in_use
from coldstream.evaluation.methods import METHODS, parse_method, schemas_in_use
from coldstream.evaluation.prequential import Trial, untested
from coldstream.evaluation.published import experiment
from coldstream.evaluation.ranks import write_ranks
from coldstream.evaluation.report import write_report
from coldstream.evaluation.results import failed_rows, rows, write_rows
from coldstream.evaluation.revealing import revealing_columns
from coldstream.evaluation.runs import Failure, Job, attempt_all, check, distinct
from coldstream.evaluation.study import Facts, Study
from coldstream.evaluation.workload import Known, Source, loaded
from coldstream.support.files import check_writable

DEFAULT_METHODS = "coldstream,popularity,recent-popularity"

FAILED = 1
"""Exit status if a method failed; the results of all other methods are still shown and written."""

MOST_PAIRS = 21
"""Maximal number of pairwise comparisons shown.

With more (over seven methods), the best is compared with each other method.
"""


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    known = "\n".join(f"  {name:18}{kind.summary}" for name, kind in METHODS.items())
    parser = commands.add_parser(
        "evaluate",
        description="Every event of the last 70 % is ranked before it is learned.",
        epilog=f"methods:\n{known}\n\noptions follow the name: recent-popularity:half_life=500, coldstream:factors=16",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_stream(parser)
    parser.add_argument("--methods", default=DEFAULT_METHODS, metavar="A,B,C", help=f"see below ({DEFAULT_METHODS})")
    parser.add_argument("--seeds", type=whole, default=1, metavar="N", help="trials of every method, from seeds 0, 1, … (1)")
    parser.add_argument("--top", type=whole, metavar="N", help="the length of a recommendation (10; clicks 1)")
    parser.add_argument("--window", type=whole, metavar="T", help="events of the moving recall (3000; clicks 500)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a list with one object per method and seed")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write a page with tables and plots")
    parser.add_argument("--ranks", type=Path, metavar="FILE.parquet", help="write the rank of every tested event")
    parser.add_argument(
        "--untested", action="store_true", help="use only the first 30 %%, which are not tested: to choose by"
    )
    parser.add_argument("--target", metavar="KIND", help="test events of this kind only; others are learned (what was had)")
    add_jobs(parser)
    add_engine(parser)
    add_learners(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    source = source_of(args)
    methods = list(dict.fromkeys(name.strip() for name in args.methods.split(",") if name.strip()))
    if not methods:
        raise InvalidInput(f"--methods must name at least one method, got {args.methods!r}; known are {', '.join(METHODS)}")
    for name in methods:
        parse_method(name)
    for path in filter(None, (args.json, args.report, args.ranks)):
        check_writable(path)
    study = evaluated(source, methods, args)
    if args.json:
        write_rows(args.json, [*rows(study), *failed_rows(study)])
    if args.ranks:
        write_ranks(args.ranks, [study])
    if args.report:
        write_report(args.report, "Test, then learn", [study])
    _show(study)
    return FAILED if study.failures else 0


def evaluated(source: Source, methods: list[str], args: argparse.Namespace) -> Study:
    """Evaluate methods on a stream and return the study."""
    workload = loaded(source)
    stream = untested(workload.stream) if args.untested else workload.stream
    schemas = schemas_in_use(methods, workload)
    # without a method that uses attributes no column can reveal the answer
    revealing = revealing_columns(workload.stream) if schemas else []
    say_notes(workload, revealing)
    settings = experiment(source.name if isinstance(source, Known) else "")
    top, window = args.top or settings.top, args.window or settings.window
    jobs = [Job(source, method, seed, top, args.untested, args.target) for method in methods for seed in range(args.seeds)]
    check(jobs)
    with engine_of(args) as engine, trials_bar(stream.name, len(distinct(jobs)) * len(stream.events)) as bar:
        ran = attempt_all(jobs, engine.processes, bar, engine.run, engine.spread)
    outcomes = list(zip(jobs, ran, strict=True))
    failures: dict[str, dict[int, str]] = {}
    for job, outcome in outcomes:
        if isinstance(outcome, Failure):
            failures.setdefault(job.method, {})[job.seed] = outcome.reason
    # A method that failed with any seed is left out, because the mean over its other seeds would be biased.
    found: dict[str, dict[int, Trial]] = {method: {} for method in methods if method not in failures}
    for job, outcome in outcomes:
        if job.method in found and isinstance(outcome, Trial):
            found[job.method][job.seed] = outcome
    if not found:
        raise Interrupted("; ".join(f"{method}: {next(iter(seeds.values()))}" for method, seeds in failures.items()))
    fields = fields_in_use(schemas, revealing)
    warnings = [one.warning for one in revealing]
    return Study(Facts.of(stream), top, window, found, failures=failures, fields=fields, warnings=warnings)


def _show(study: Study) -> None:
    metrics, stream = tables.metrics_of(study), study.stream
    rule = "every item is a candidate" if stream.repeats else "candidates are what the user did not have yet"
    size = f"{stream.events:,} events, {stream.users:,} users, {stream.items:,} items"
    show(tables.results_table(study, metrics), f"{stream.name}: {size}; {study.tested:,} tested; {rule}")
    if failures := tables.failures_table(study):
        show(failures, "these methods came to no end; all others did")
    if newcomers := tables.newcomers_table(study, metrics):
        show(
            newcomers,
            "first-time users and items (a new item comes just before its first event: known items are the fairer test)",
        )
    if fields := tables.fields_table(study):
        show(fields, "fields in use; baselines know ids alone")
    else:
        OUT.print("fields in use: none but ids\n")
    show(tables.timings_table(metrics), "time; train includes compiling, where it was not done before")
    if len(study.trials) > 1:
        pairs = tables.comparisons(study, metrics)
        few = pairs if len(pairs) <= MOST_PAIRS else pairs[: len(study.trials) - 1]
        title = "pairs: the first less the second"
        show(tables.comparison_table(few), title if few is pairs else f"{title} (all {len(pairs)} are in the report)")
        if known := tables.known_comparisons(study, metrics):
            show(tables.comparison_table(known), "the best against the others on known items alone")
