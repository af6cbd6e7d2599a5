"""Products of rows and a step of AdaGrad are plain float32 arithmetic, to the bit, in the order they state."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream.model.vectors import LANES, adagrad_step, dots
from coldstream.support.compiled import kernel

FACTORS = [0, *range(1, 21), 40]
ROWS = 60
EPSILON = np.finfo(np.float32).eps
SENTINEL = np.float32(-77.25)


@kernel
def products(V, column, start, stop, q, out):
    dots(V, column, start, stop, q, out)


@kernel
def step(V, GV, SV, i, gradient, old_V, old_GV, old_SV, t, eta, epsilon, twice, kept):
    return adagrad_step(V, GV, SV, i, gradient, old_V, old_GV, old_SV, t, eta, epsilon, twice, kept)


def drawn(k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows and a vector whose sizes differ by orders of magnitude, so that the order of a sum shows."""
    rng = np.random.default_rng([seed, k])
    sizes = np.exp(rng.normal(scale=3, size=(ROWS, k)))
    return (rng.normal(size=(ROWS, k)) * sizes).astype(np.float32), rng.normal(size=k).astype(np.float32)


def asked(V: np.ndarray, column: list[int], q: np.ndarray, start: int = 0, stop: int | None = None) -> np.ndarray:
    """What `dots` writes, and that it writes nowhere else."""
    stop = len(column) if stop is None else stop
    out = np.full(stop - start + 2 * LANES, SENTINEL, np.float32)
    products(V, np.array(column, np.int32), start, stop, q, out)
    assert (out[stop - start :] == SENTINEL).all()
    return out[: stop - start]


def in_order(row: np.ndarray, q: np.ndarray) -> np.float32:
    """Eight interleaved sums, then a tree of neighbours, then what is left over one by one."""
    whole = len(row) - len(row) % LANES
    sums = np.zeros(LANES, np.float32)
    for f in range(0, whole, LANES):
        sums = sums + q[f : f + LANES] * row[f : f + LANES]
    while len(sums) > 1:
        sums = sums[0::2] + sums[1::2]
    total = sums[0]
    for f in range(whole, len(row)):
        total = total + q[f] * row[f]
    return total


@pytest.mark.parametrize("k", FACTORS)
def test_products_are_those_of_float32_and_nearly_those_of_float64(k: int) -> None:
    V, q = drawn(k)
    rng = np.random.default_rng(k)
    for count in range(21):
        column = rng.integers(ROWS, size=count).tolist() if count % 2 else rng.permutation(ROWS)[:count].tolist()
        found, rows = asked(V, column, q), V[column]
        assert found.tolist() == [in_order(row, q) for row in rows]
        exact = rows.astype(np.float64) @ q.astype(np.float64)
        bound = (k + 1) * EPSILON * (np.abs(rows).astype(np.float64) @ np.abs(q).astype(np.float64))
        assert (np.abs(found - exact) <= bound).all()
        assert (np.abs(found - rows @ q) <= 2 * bound).all()


@pytest.mark.parametrize("k", FACTORS)
def test_a_row_gives_the_same_bits_wherever_it_stands_and_whoever_else_is_asked_for(k: int) -> None:
    V, q = drawn(k)
    alone = np.array([asked(V, [row], q)[0] for row in range(ROWS)], np.float32)
    rng = np.random.default_rng(k)
    for count in range(21):
        column = rng.integers(ROWS, size=count + 11).tolist()
        for start in range(11):
            found = asked(V, column, q, start, start + count)
            assert found.tobytes() == alone[column[start : start + count]].tobytes()


def formula(
    v: np.ndarray,
    before: np.ndarray,
    s: np.ndarray,
    gradient: np.ndarray,
    eta: np.float32,
    epsilon: np.float32,
    twice: np.float32,
    kept: np.float32,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The step as its documentation has it: V, G and S afterwards."""
    with np.errstate(all="ignore"):
        g = gradient + twice * v
        G = kept * before + g * g
        r = eta / np.sqrt(G + epsilon)
        S = (np.float32(1) - r * twice) * s - np.float32(2) * r * v
        return v - r * g, G, S


def lost(V: np.ndarray, G: np.ndarray, S: np.ndarray) -> bool:
    return bool(not (np.abs(V) < 2.0**40).all() or not np.isfinite(G).all() or not np.isfinite(S).all())


class Stepped:
    """One step by the kernel, and what must be true of any."""

    def __init__(self, v, before, s, gradient, eta=0.1, epsilon=1e-6, twice=0.04, kept=0.99, rows=5, i=3, t=1) -> None:
        rng = np.random.default_rng(0)
        k, scalars = len(v), [np.float32(scalar) for scalar in (eta, epsilon, twice, kept)]
        V, GV, SV, gradients = (rng.normal(size=(rows, k)).astype(np.float32) for _ in range(4))
        V[i], GV[i], SV[i], gradients[t] = v, before, s, gradient
        old = [np.full((rows, k), SENTINEL) for _ in range(3)]
        given = [array.copy() for array in (V, GV, SV, gradients)]
        self.lost = step(V, GV, SV, i, gradients, *old, t, *scalars)
        self.V, self.G, self.S = V[i].copy(), GV[i].copy(), SV[i].copy()
        # What was overwritten is in the old rows, and nothing else has changed.
        for was, now, kept in zip(given, (V, GV, SV), old, strict=False):
            assert kept[t].tobytes() == was[i].tobytes()
            assert (np.delete(kept, t, 0) == SENTINEL).all()
            assert np.delete(now, i, 0).tobytes() == np.delete(was, i, 0).tobytes()
        assert gradients.tobytes() == given[3].tobytes()
        expected = formula(given[0][i], given[1][i], given[2][i], given[3][t], *scalars)
        for found, right in zip((self.V, self.G, self.S), expected, strict=True):
            assert right.dtype == np.float32
            np.testing.assert_array_equal(found, right)  # one NaN is as good as another
        assert type(self.lost) is bool
        assert self.lost == lost(*expected)


@pytest.mark.parametrize("k", FACTORS)
def test_a_step_is_its_formula_to_the_bit(k: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng([seed, k])
        v, before, s, gradient = (np.exp(rng.normal(scale=4, size=k)) * rng.normal(size=k) for _ in range(4))
        eta, epsilon, twice = np.exp(rng.normal(scale=2, size=3)) * (0.1, 1e-6, 0.04)
        stepped = Stepped(v, np.abs(before), s, gradient, eta, epsilon, twice if seed % 4 else 0.0, 1.0 if seed % 3 else 0.9)
        assert not stepped.lost


LIMIT = np.float32(2.0**40)
BELOW = np.nextafter(LIMIT, np.float32(0))
MOST = np.finfo(np.float32).max
EXTREMES = {  # (v, G before, S before, gradient), and whether it is lost where λ is 0
    "V at the limit": ((LIMIT, 1, 0, 0), True),
    "V at the other limit": ((-LIMIT, 1, 0, 0), True),
    "V below the limit": ((BELOW, 1, 0, 0), False),
    "V below the other limit": ((-BELOW, 1, 0, 0), False),
    "V that a step does not bring back": ((LIMIT, 0, 0, 1e6), True),
    "V infinite": ((np.inf, 1, 0, 0), True),
    "V no number": ((np.nan, 1, 0, 0), True),
    "G as large as can be": ((0, MOST, 0, 0), False),
    "G infinite": ((0, np.inf, 0, 0), True),
    "G no number": ((0, np.nan, 0, 0), True),
    "a gradient whose square is finite": ((0, 0, 0, 1.8e19), False),
    "a gradient whose square is not": ((0, 0, 0, 1.9e19), True),
    "a gradient that is no number": ((0, 0, 0, np.nan), True),
    "S as large as can be": ((0, 1, -MOST, 0), False),
    "S infinite": ((0, 1, np.inf, 0), True),
    "S no number": ((0, 1, np.nan, 0), True),
    "S and V as large as can be": ((BELOW, 0, -MOST, 0), False),  # what is added is less than half of its last digit
    "the smallest of all": ((1e-45, 1e-45, 1e-45, 1e-45), False),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_whatever_diverges_in_any_place_is_told_and_nothing_else(name: str) -> None:
    extreme, diverges = EXTREMES[name]
    for k in FACTORS[1:]:
        for place in range(k):
            own = np.tile(np.array([[0.5], [1.0], [0.25], [0.125]], np.float32), k)
            own[:, place] = extreme
            assert Stepped(*own, twice=0.0).lost == diverges


def test_a_sensitivity_that_runs_away_is_told_though_the_vector_stays() -> None:
    """r 2λ = 4, so that S is multiplied by −3 while V stands still."""
    for k in FACTORS[1:]:
        for place in range(k):
            s = np.full(k, 0.25, np.float32)
            for own, diverges in ((MOST / 4, False), (MOST / 2, True), (-MOST / 2, True)):
                s[place] = own
                assert Stepped(np.zeros(k), np.zeros(k), s, np.zeros(k), 0.1, 1e-6, 0.04).lost == diverges


FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
SQUARES = st.floats(0, width=32, allow_nan=False, allow_infinity=False)


@given(
    st.lists(st.tuples(FINITE, SQUARES, FINITE, FINITE), min_size=1, max_size=19),
    st.floats(1e-12, 1e3),
    st.floats(1e-12, 1e3),
    st.floats(0, 200),
)
def test_whatever_the_numbers_are(columns: list[tuple[float, ...]], eta: float, epsilon: float, twice: float) -> None:
    Stepped(*np.array(columns, np.float32).T, eta, epsilon, twice)
