"""`coldstream tune`: search hyperparameters on the first 30 % of a stream."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coldstream.cli.engines import Engine, add_engine, engine_of
from coldstream.cli.numbers import seed, whole
from coldstream.cli.options import add_jobs, add_stream, source_of
from coldstream.cli.screen import ERR, say_notes, trials_bar
from coldstream.evaluation import tuning
from coldstream.evaluation.prequential import untested
from coldstream.evaluation.published import experiment
from coldstream.evaluation.revealing import revealing_columns
from coldstream.evaluation.runs import run_all
from coldstream.evaluation.tuning import Tried
from coldstream.evaluation.workload import Known, Source, loaded
from coldstream.support.files import check_writable, write_text


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    parser = commands.add_parser(
        "tune",
        description=(
            "Tests configurations on the first 30 % of a stream and never looks at the rest. The default itself is one of"
            " them; the best few are tested again from other seeds, so that luck does not win."
        ),
    )
    add_stream(parser)
    parser.add_argument("--tries", type=whole, default=24, metavar="N", help="configurations to try (24)")
    parser.add_argument("--top", type=whole, metavar="N", help="the length of a recommendation (10; clicks 1)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the search (0)")
    parser.add_argument("--out", type=Path, metavar="FILE.toml", help="write the TOML there too")
    add_jobs(parser)
    add_engine(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    source = source_of(args)
    if args.out:
        check_writable(args.out)
    workload = loaded(source)
    say_notes(workload, revealing_columns(workload.stream))
    top = args.top or experiment(source.name if isinstance(source, Known) else "").top
    with engine_of(args) as engine:
        first = _try(source, tuning.candidates(args.tries, args.seed), [0], top, engine, "trying")
        finalists = [result.changes for result in tuning.ranked(first)[: tuning.FINALISTS]]
        if {} not in finalists:
            finalists.append({})
        seeds = list(range(1, 1 + tuning.FINAL_SEEDS))
        best = tuning.ranked(_try(source, finalists, seeds, top, engine, "the best again"))[0]
    note = f"{workload.stream.name}, first 30 %: recall@{top} {best.recall:.4f}, MPR {best.mpr:.2f}, {best.seeds} seeds"
    text = tuning.as_toml(best.changes, note)
    if args.out:
        write_text(args.out, text + "\n")
    print(text)
    return 0


def _try(
    source: Source, changes: Sequence[Mapping[str, Any]], seeds: Sequence[int], top: int, engine: Engine, label: str
) -> list[Tried]:
    jobs = [tuning.job(source, one, seed, top) for one in changes for seed in seeds]
    events = len(untested(loaded(source).stream).events)
    with trials_bar(label, len(jobs) * events) as bar:
        trials = run_all(jobs, engine.processes, bar, engine.run, engine.spread)
    results = [tuning.tried(one, trials[n * len(seeds) : (n + 1) * len(seeds)], top) for n, one in enumerate(changes)]
    for result in tuning.ranked(results):
        settings = ", ".join(f"{name} {value}" for name, value in result.changes.items()) or "the default"
        ERR.print(f"recall@{top} {result.recall:.4f}  MPR {result.mpr:5.2f}  {settings}", markup=False, soft_wrap=True)
    return results
