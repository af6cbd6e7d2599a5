"""`coldstream paper`: reproduce the paper's whole experiment."""

import argparse
from pathlib import Path
from typing import Any

from coldstream.cli.numbers import whole
from coldstream.cli.options import add_jobs
from coldstream.cli.screen import OUT, show, trials_bar
from coldstream.errors import InvalidInput
from coldstream.evaluation import paper, tables
from coldstream.evaluation.plots import recall_over_time
from coldstream.evaluation.published import EXPERIMENTS, TRIALS
from coldstream.evaluation.ranks import write_ranks
from coldstream.evaluation.report import write_report
from coldstream.evaluation.results import rows, write_rows
from coldstream.evaluation.runs import run_all
from coldstream.evaluation.study import Study
from coldstream.evaluation.workload import loaded
from coldstream.support.files import check_writable, write_text


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    parser = commands.add_parser(
        "paper",
        description="Runs Kitazawa (2016): static MF, iMF, static FM and iFM on ML-100k and on clicks.",
    )
    parser.add_argument("--out", type=Path, default=Path("paper"), metavar="DIR", help="where the files go (paper)")
    parser.add_argument("--only", choices=list(EXPERIMENTS), help="one data set instead of both")
    parser.add_argument(
        "--trials",
        type=whole,
        default=TRIALS,
        metavar="N",
        help=f"of every method ({TRIALS}); clicks five times as many, each on its own stream",
    )
    add_jobs(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    studies = []
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"--out {str(args.out)!r} cannot be made a folder: {error}") from error
    check_writable(args.out / "report.html")
    for plan in paper.plans(args.trials):
        if args.only in (None, plan.dataset):
            events = sum(len(loaded(job.source).stream.events) for job in plan.jobs)
            with trials_bar(plan.dataset, events) as bar:
                studies.append(paper.study(plan, run_all(plan.jobs, args.jobs, bar)))
            _show(studies[-1])
    _write(args.out, studies)
    OUT.print(f"written to {args.out}/: report.html, results.json, ranks.parquet and the plots", markup=False)
    return 0


def _show(study: Study) -> None:
    metrics = tables.metrics_of(study)
    trials = len(next(iter(study.trials.values())))
    show(tables.paper_table(study, metrics), f"{study.stream.name}, {trials} trials: the paper's Table 2 and ours")


def _write(folder: Path, studies: list[Study]) -> None:
    for study in studies:
        write_text(folder / f"recall-{study.stream.name}.svg", recall_over_time(study))
    write_rows(folder / "results.json", [row for study in studies for row in rows(study)])
    write_ranks(folder / "ranks.parquet", studies)
    write_report(folder / "report.html", "Incremental factorization machines, reproduced", studies)
