"""How fast, how large, and how both grow. Every ratio is between two figures of this one run; compile time stands apart."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from coldstream import Event, Recommender
from coldstream.catalogue.contrast import learn_epoch
from coldstream.engine.training import collected
from coldstream.features.sparse import Sparse, sparse
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.model.kernels import learn
from coldstream.model.shapes import Candidates, OptimizerState, Rows, UpdateRule
from coldstream.support.compiled import kernel
from workloads import FULL, IDS_ONLY, MATRIX, MovieLens


def best_of(repeats: int, action: Callable[[], object], calls: int = 1) -> float:
    """Microseconds per call: the fastest of several runs, which is the one that other processes disturbed least."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times) / calls * 1e6


def line(what: str, value: str, bound: str = "") -> None:
    """One row of the report."""
    print(f"  {what:<58}{value:>16}   {bound}", flush=True)


def compile_everything() -> None:
    """Call every kernel once and say what compiling or loading them from the cache took."""
    start = time.perf_counter()
    for preset in ("paper", "default"):
        recommender = MovieLens(items=40, users=4, combinations=8).fill(Recommender(FULL, preset), 3)
        recommender.recommend("u0")
        recommender.train(MovieLens(items=40, users=4).events(4), epochs=1)
    print(f"compiling, or loading what was compiled before: {time.perf_counter() - start:.1f} s\n")


def kernel_time(recommender: Recommender, events: int = 4000) -> float:
    """Microseconds that the learning kernel alone takes per event: a whole epoch in one call."""
    stream = list(MovieLens().events(events))
    epoch = collected(recommender.engine.shared, recommender.engine.users, stream, 1, recommender.engine.clock)
    own, rule = recommender.engine.shared.machine.parameters, recommender.engine.shared.machine.rule
    items, order = recommender.engine.shared.catalogue.items, np.arange(events, dtype=np.int32)
    args = (own.rows, own.optimizer, rule, items, epoch.draws[0], epoch.batch, epoch.cross_features[0], order)
    return best_of(7, lambda: learn_epoch(*args), events)


def numbered(recommender: Recommender, events: list[Event]) -> list[tuple[int, Event]]:
    """Events with the positions that come next."""
    return list(enumerate(events, recommender.position + 1))


def movielens() -> None:
    """The figures at ML-100k's shape."""
    paper = MovieLens().fill(Recommender(FULL, "paper", seed=1))
    matrix = MovieLens().fill(Recommender(IDS_ONLY, "paper", seed=1, learning_rate=0.002, factor_penalty=0.01, **MATRIX))
    default = MovieLens().fill(Recommender(FULL, "default", seed=1))
    contrast = MovieLens().fill(Recommender(FULL, "default", seed=1, negatives=20, trends=(), neighbours=0))
    users = [f"u{n}" for n in range(400)]

    def ask(recommender: Recommender) -> Callable[[], object]:
        return lambda: [recommender.recommend(user, 10, time=1e6) for user in users]

    full_time, matrix_time, default_time = [], [], []
    for _ in range(7):  # interleaved, so that a noisy minute hits all of them
        full_time.append(best_of(1, ask(paper), len(users)))
        matrix_time.append(best_of(1, ask(matrix), len(users)))
        default_time.append(best_of(1, ask(default), len(users)))
    requests = [paper.serving.encode_request(user, time=1e6) for user in users]
    features = paper.engine.shared.catalogue.features
    nonzeros = np.mean([len(r.x.column) + len(features(n, paper.events, r.history).column) for n, r in enumerate(requests)])
    print(f"ML-100k's shape: {len(paper.items())} items, {nonzeros:.0f} nonzeros, k = 40")
    line("recommend(n=10), factorization machine", f"{min(full_time):.1f} µs", "≤ 60")
    line("recommend(n=10), matrix factorization", f"{min(matrix_time):.1f} µs")
    line("ratio", f"{min(full_time) / min(matrix_time):.2f}", "≤ 1.3")
    line("recommend(n=10), default mode", f"{min(default_time):.1f} µs")
    events = list(MovieLens().events(3000))

    def learn_time(recommender: Recommender) -> float:
        return best_of(5, lambda: [recommender.learn(event) for event in events], len(events))

    line("paper-mode learn, called from Python", f"{learn_time(paper):.1f} µs", "≤ 40")
    line("  of which the kernel", f"{kernel_time(paper):.2f} µs", "≤ 3")
    crowded = MovieLens(per_item=(8,)).fill(Recommender(FULL, "paper", seed=1))
    line("  the same where every item has eight genres", f"{learn_time(crowded):.1f} µs")
    line(
        "softmax learn with 20 negatives, called from Python",
        f"{best_of(5, lambda: [*map(contrast.learn, events)], 3000):.1f} µs",
    )
    line("  of which the kernel", f"{kernel_time(contrast):.2f} µs", "≤ 15")
    line(
        f"default-mode learn ({default.hyperparameters.negatives} negatives, trends, neighbours), from Python",
        f"{best_of(5, lambda: [*map(default.learn, events)], 3000):.1f} µs",
        "≤ 80",
    )
    line("  many at once", f"{best_of(5, lambda: default.engine.replay(numbered(default, events)), 3000):.1f} µs")
    line("  of which the kernel", f"{kernel_time(default):.2f} µs", "≤ 35")
    once, more = (best_of(3, lambda e=epochs: default.train(events, epochs=e), 3000) for epochs in (1, 11))
    line("train: preparing an event / learning it, per epoch", f"{once:.1f} / {(more - once) / 10:.1f} µs")


def growth_with_model() -> None:
    """The learning kernel against k and against the number of nonzeros: both should be straight lines."""
    print("\npaper-mode learning kernel")
    for what, cases in (
        ("k", [(10, 24), (20, 24), (40, 24), (80, 24), (160, 24)]),
        ("nonzeros", [(40, n) for n in (6, 12, 24, 48, 96)]),
    ):
        times = [_learn_time(*case) for case in cases]
        size = np.array([case[0 if what == "k" else 1] for case in cases], float)
        slope, start = np.polyfit(size, times, 1)
        fit = 1 - np.var(times - (slope * size + start)) / np.var(times)
        text = "  ".join(f"{int(s)}: {t:.2f}" for s, t in zip(size, times, strict=True))
        line(f"µs by {what}   {text}", f"R² {fit:.3f}", "linear")


def _learn_time(k: int, nonzeros: int, calls: int = 3000) -> float:
    # A small λ: under the preset's, one sample repeated for ever decays V into denormal numbers, which are slow.
    machine = FactorizationMachine("paper", factors=k, factor_penalty=0.01, linear_penalty=0.01)
    for column in range(nonzeros):
        machine.vocabulary.admit(machine.vocabulary.admit_field("x"), str(column))
    machine.start(0)
    machine.parameters.make_room(nonzeros)
    x, nothing = sparse(range(nonzeros), [1.0] * nonzeros), Candidates(np.zeros(2, np.int32), sparse([], []))
    args = (machine.parameters.rows, machine.parameters.optimizer, machine.rule, x, nothing, calls)
    return best_of(15, lambda: _learn_often(*args), calls)


@kernel
def _learn_often(rows: Rows, state: OptimizerState, rule: UpdateRule, x: Sparse, candidates: Candidates, calls: int) -> None:
    for n in range(calls):
        learn(rows, state, rule, x, candidates, 1.0, 1.0, n)


def memory() -> None:
    """Peak memory of a million features, in a process of its own."""
    print("\nmemory of 1,000,000 features at k = 40, paper mode")
    out = subprocess.run([sys.executable, __file__, "--memory"], check=True, capture_output=True, text=True).stdout
    own, peak = map(float, out.split())
    line("parameters' own bytes", f"{own / 1e6:.0f} MB")
    line("peak of the process, above an empty machine", f"{peak / 1e6:.0f} MB")
    line("ratio", f"{peak / own:.2f}", "≤ 2.5")


def _measure_memory(features: int = 1_000_000) -> None:
    machine = FactorizationMachine("paper", factors=40)
    machine.learn_one({"id": "first"}, 1.0)
    before = _peak()
    for n in range(features):
        machine.learn_one({"id": f"feature number {n}"}, 1.0)
    theta = machine.parameters.theta
    print(machine.parameters.columns * (theta.w.itemsize + theta.V.itemsize * theta.V.shape[1]), _peak() - before)


def _peak() -> int:
    """The most memory this process has held, in bytes. The rusage figure would not do: it survives exec."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    if "--memory" in sys.argv:
        _measure_memory()
    else:
        compile_everything()
        movielens()
        growth_with_model()
        memory()
