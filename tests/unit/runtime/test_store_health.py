"""A store is said to work again when something was written, and where work in the background fails, when that is over."""

from coldstream.runtime.writing.store_thread import QUIET, StoreHealth


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_it_works_again_when_something_was_written() -> None:
    health = StoreHealth(Clock())
    assert (health.works, health.recovered()) == (True, False)
    health.failed()
    assert (health.works, health.owes_proof, health.recovered()) == (False, True, False)
    health.wrote()
    assert (health.works, health.owes_proof) == (True, False)
    assert [health.recovered(), health.recovered()] == [True, False]


def test_what_is_tried_again_in_the_background_must_have_failed_long_ago() -> None:
    clock = Clock()
    health = StoreHealth(clock)
    for _ in range(3):
        health.failed_in_background()
        health.wrote()
        assert (health.works, health.owes_proof, health.recovered()) == (False, False, False)
        clock.now += QUIET - 0.1
    assert not health.works
    clock.now += 0.1
    assert (health.works, health.recovered()) == (True, True)
