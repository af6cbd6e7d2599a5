"""Many samples in one call are many samples one by one."""

import numpy as np
import pytest

from coldstream import Diverged, FactorizationMachine
from coldstream.features.sparse import Sparse, sparse
from coldstream.model.samples import Samples


def machines(**hyperparameters: float) -> list[FactorizationMachine]:
    made = [FactorizationMachine(seed=1, factors=4, **hyperparameters) for _ in range(2)]
    for machine in made:
        machine.learn_features([(f"f{n}", "", 1.0) for n in range(6)], 0.5)
    return made


def random_samples(rng: np.random.Generator, n: int) -> Samples:
    lengths = rng.integers(0, 4, n)
    columns = np.concatenate([rng.choice(6, length, replace=False) for length in lengths]).astype(np.int32)
    return Samples(np.append(0, np.cumsum(lengths)), Sparse(columns, rng.normal(size=len(columns)).astype(np.float32)))


def one(samples: Samples, n: int) -> Sparse:
    first, last = samples.offset[n : n + 2]
    return sparse(samples.x.column[first:last].tolist(), samples.x.value[first:last].tolist())


def state(machine: FactorizationMachine) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in machine.state().items()}


def test_they_give_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    together, apart = machines()
    samples, targets, order = random_samples(rng, 50), rng.normal(size=50), rng.permutation(50)
    together.learn_samples(samples, targets, order)
    for n in order:
        apart.learn(one(samples, n), targets[n])
        apart.samples += 1
    assert state(together) == state(apart)
    assert together.samples == apart.samples == 51
    assert together.predict_samples(samples).tolist() == [apart.predict(one(samples, n)) for n in range(50)]


def test_where_one_diverges_none_is_learned() -> None:
    machine, _ = machines(learning_rate=1000.0, optimizer="sgd")
    samples, order = random_samples(np.random.default_rng(0), 60), np.arange(60)
    before = state(machine), machine.samples
    with pytest.raises(Diverged, match=r"sample \d+ with target .*: the update is not finite and was not applied"):
        machine.learn_samples(samples, np.full(60, 100.0), order)
    assert (state(machine), machine.samples) == before
