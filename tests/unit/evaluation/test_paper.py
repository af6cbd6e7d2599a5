"""The plan of the paper's experiment, and what the paper says."""

from coldstream.evaluation.paper import plans
from coldstream.evaluation.published import EXPERIMENTS, METHODS, experiment
from coldstream.evaluation.workload import Known


def test_four_methods_on_two_data_sets_five_trials_each() -> None:
    films, clicks = plans()
    assert [(job.method, job.seed) for job in films.jobs] == [(method, seed) for method in METHODS for seed in range(5)]
    assert {job.source for job in films.jobs} == {Known("ml-100k")}
    assert len(clicks.jobs) == 4 * 25
    assert all(job.source == Known("clicks", job.seed) for job in clicks.jobs)
    assert {job.top for job in clicks.jobs} == {1}


def test_the_settings_are_the_papers() -> None:
    films, clicks = EXPERIMENTS["ml-100k"], EXPERIMENTS["clicks"]
    assert (films.machine.learning_rate, films.machine.epochs, films.machine.factors) == (0.004, 3, 40)
    assert (films.machine.intercept_penalty, films.machine.linear_penalty, films.machine.factor_penalty) == (2, 8, 16)
    assert (films.factorization.learning_rate, films.factorization.epochs) == (0.002, 30)
    assert (clicks.machine.learning_rate, clicks.machine.epochs, clicks.machine.factors) == (0.00006, 5, 2)
    assert (clicks.factorization.learning_rate, clicks.factorization.factor_penalty) == (0.0003, 0.01)
    assert films.factorization.history == films.machine.neighbours == 0
    assert experiment("somebody's own") == films
