"""Random numbers that are pure functions of what they are for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coldstream.model.keyed_random import below, fill_normal, hashed, key_of, keys_of, shuffled


def splitmix64(state: int) -> int:
    """One output of SplitMix64 as published, in unbounded integers."""
    mask = 2**64 - 1
    z = (state + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


@given(st.integers(0, 2**64 - 1), st.integers(0, 10**6))
def test_hashed_is_splitmix64(key: int, counter: int) -> None:
    assert int(hashed(np.uint64(key), counter)) == splitmix64((key + counter * 0x9E3779B97F4A7C15) % 2**64)


def test_the_known_first_outputs_of_seed_0() -> None:
    assert [int(hashed(np.uint64(0), n)) for n in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**31 - 1))
def test_below_is_in_range(key: int, bound: int) -> None:
    assert all(0 <= below(np.uint64(key), n, bound) < bound for n in range(20))


def test_below_is_uniform() -> None:
    draws = np.array([below(key_of(1, "uniform"), n, 7) for n in range(70_000)])
    assert np.abs(np.bincount(draws, minlength=7) / 10_000 - 1).max() < 0.04


def test_normals_are_normal() -> None:
    rows = np.empty((1, 100_001), np.float32)
    fill_normal(np.array([key_of(1, "normal")]), 0.1, np.array([0]), rows)
    (out,) = rows
    assert abs(out.mean()) < 0.002
    assert abs(out.std() - 0.1) < 0.002
    within = [(np.abs(out) < width * 0.1).mean() for width in (1, 2, 3)]
    np.testing.assert_allclose(within, [0.6827, 0.9545, 0.9973], atol=0.006)
    assert abs(np.corrcoef(out[:-1], out[1:])[0, 1]) < 0.01


@given(st.lists(st.integers(0, 2**64 - 1), max_size=6), st.integers(0, 9), st.randoms(use_true_random=False))
def test_a_row_of_normals_depends_on_its_key_alone(keys: list[int], k: int, random: object) -> None:
    rows = random.sample(range(10), len(keys))
    out = np.full((10, k), 7, np.float32)
    fill_normal(np.array(keys, np.uint64), 0.1, np.array(rows, np.int64), out)
    for key, row in zip(keys, rows, strict=True):
        alone = np.full((1, k + 1), 7, np.float32)  # nor on how many are drawn
        fill_normal(np.array([key], np.uint64), 0.1, np.array([0]), alone)
        np.testing.assert_array_equal(out[row], alone[0, :k])
    assert (np.delete(out, rows, 0) == 7).all()


@given(st.integers(0, 2**64 - 1), st.integers(1, 200))
def test_a_shuffle_is_a_permutation(key: int, n: int) -> None:
    assert sorted(shuffled(np.uint64(key), n)) == list(range(n))


def test_shuffles_reach_every_order() -> None:
    orders = {tuple(shuffled(key_of(n, "shuffle"), 4)) for n in range(1000)}
    assert len(orders) == 24


def test_names_do_not_run_together() -> None:
    assert key_of(1, "ab", "c") != key_of(1, "a", "bc") != key_of(2, "a", "bc")


def test_every_seed_of_64_bits_has_a_key_of_its_own() -> None:
    seeds = [0, 1, -1, 2**63 - 1, -(2**63)]
    assert len({int(key_of(seed, "negatives")) for seed in seeds}) == len(seeds)


@given(st.integers(-(2**63), 2**63 - 1), st.text(), st.lists(st.text()))
def test_keys_of_many_are_those_of_each(seed: int, name: str, values: list[str]) -> None:
    keys = keys_of(seed, name, values)
    assert keys.dtype == np.uint64
    assert keys.tolist() == [int(key_of(seed, name, value)) for value in values]
