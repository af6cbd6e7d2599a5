"""With two id fields, no w0 and no w, the machine is iMF: Step 3 of the paper's first algorithm."""

import numpy as np
import pytest

from coldstream import Event, Recommender, Schema

ETA, PENALTY = 0.05, 0.02


def matrix_factorization(**changes: object) -> Recommender:
    plain = {"intercept": False, "linear": False, "regularization": "fixed", "factor_penalty": PENALTY}
    schema = Schema(exclude_seen=False)  # where a user may have an item again, every repeat is learned from
    return Recommender(schema, "paper", seed=3, factors=4, learning_rate=ETA, **(plain | changes))


def vectors(recommender: Recommender, user: str, item: str) -> tuple[np.ndarray, np.ndarray]:
    find, V = recommender.engine.shared.encoder.vocabulary.find, recommender.engine.shared.machine.parameters.theta.V
    return V[find(0, user)].astype(np.float64), V[find(1, item)].astype(np.float64)


def test_step_3() -> None:
    """p ← p − 2η((p·q − 1) q + λp) and the same for q, both from the old values."""
    recommender = matrix_factorization()
    recommender.put_user("u")
    recommender.put_item("i")
    for _ in range(5):
        p, q = vectors(recommender, "u", "i")
        error = p @ q - 1.0
        recommender.learn(Event("u", "i"))
        new_p, new_q = vectors(recommender, "u", "i")
        np.testing.assert_allclose(new_p, p - 2 * ETA * (error * q + PENALTY * p), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(new_q, q - 2 * ETA * (error * p + PENALTY * q), rtol=1e-5, atol=1e-7)
        assert recommender.predict("u", "i") == pytest.approx(new_p @ new_q, rel=1e-5)


def test_a_static_method_is_one_that_stops_learning() -> None:
    trained, static = matrix_factorization(), matrix_factorization()
    events = [Event(f"u{n % 3}", f"i{n % 4}") for n in range(12)]
    trained.train(events, epochs=5)
    static.train(events, epochs=5)
    assert trained.recommend("u1", exclude_seen=False) == static.recommend("u1", exclude_seen=False)
    trained.learn(Event("u1", "i3"))
    assert trained.recommend("u1", exclude_seen=False) != static.recommend("u1", exclude_seen=False)
