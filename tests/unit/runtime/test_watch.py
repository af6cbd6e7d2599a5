"""When a writer counts as gone. The time is passed in."""

from coldstream.runtime.replication.replica import LONGEST_BLINK, Watch
from coldstream.storage.sharing import News


def news(epoch: int = 1, beat: int = 0, held: bool = True) -> News:
    return News(epoch, 10, 0, "127.0.0.1:8000", beat, held, True)


def test_nobody_with_the_right_to_write_is_gone_at_once() -> None:
    assert Watch(2.0).is_gone(news(held=False), 0.0)


def test_a_writer_that_beats_is_there() -> None:
    watch = Watch(2.0)
    assert not any(watch.is_gone(news(beat=beat), 0.9 * beat) for beat in range(20))


def test_a_writer_is_gone_after_as_long_as_it_may_be_silent() -> None:
    watch = Watch(2.0)
    seen = [watch.is_gone(news(), 0.5 * n) for n in range(6)]
    assert seen == [False, False, False, False, True, True]


def test_another_writer_has_its_own_time() -> None:
    watch = Watch(2.0)
    for n in range(4):
        assert not watch.is_gone(news(epoch=1), 0.5 * n)
    for n in range(4, 8):
        assert not watch.is_gone(news(epoch=2), 0.5 * n)
    assert watch.is_gone(news(epoch=2), 4.0)


def test_who_was_stopped_itself_has_seen_nothing() -> None:
    watch = Watch(2 * LONGEST_BLINK)
    assert not watch.is_gone(news(), 0.0)
    assert not watch.is_gone(news(), 1000.0)
    assert watch.is_gone(news(), 2000.0)


def test_after_a_change_of_role_it_begins_anew() -> None:
    watch = Watch(1.0)
    for n in range(3):
        watch.is_gone(news(), 0.5 * n)
    watch.begin()
    assert not watch.is_gone(news(), 1.5)
