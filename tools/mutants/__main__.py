"""How many mutants the tests notice: `python tools/mutants --count 100 --seed 1`.

Mutants are drawn from a seed, room by room in turn, so that the first fifty of a hundred are those of fifty. Each result is
written down at once: started again with the same file, it goes on where it stopped.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calls import Watch, callers
from equivalent import equivalents, outdated
from mutations import Mutation, is_python, mutations_of
from rooms import TESTS, covering, sources, watched
from trial import SECONDS, SURVIVED, Workshop

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Draw, try, report; 0 where enough were killed."""
    options = _options()
    if options.list:
        for number, mutation in enumerate(_drawn(options), 1):
            print(f"{number:4d}  {_shown(mutation)}")
        return 0
    calls = options.folder / "calls.json"
    if options.learn:
        return int(pytest.main(["-q", "-p", "no:cacheprovider", *watched(ROOT)], plugins=[Watch(calls)]))
    results = _Results(options.folder / "results.jsonl")
    asked = [mutation for mutation in _drawn(options) if not _only(options, results, mutation)]
    deadline = time.monotonic() + 60 * options.minutes
    options.folder.mkdir(exist_ok=True)
    if asked:
        workshop = Workshop(ROOT, options.folder)
        for number, mutation in enumerate(asked, 1):
            if time.monotonic() > deadline:
                print(f"{len(asked) - number + 1} of {len(asked)} are left: the time is up")
                break
            outcome = workshop.trial(mutation, _tests(workshop.tree, mutation, calls), options.seconds)
            results.add(mutation, outcome._asdict())
            print(
                f"{number:4d}  {outcome.verdict:9}  {outcome.seconds:5.0f} s  {_shown(mutation)}\n{'':25}{outcome.by}",
                flush=True,
            )
    return results.report(list(_drawn(options)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tools/mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many mutants (100)")
    parser.add_argument("--seed", type=int, default=1, help="which mutants (1)")
    parser.add_argument("--rooms", default=",".join(TESTS), help="of which rooms (all of them)")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no trial after so long")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="a first look: survived is what nobody noticed within so many"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutants", help="where all of it is kept (.mutants)")
    parser.add_argument("--survivors", action="store_true", help="try those again that survived before")
    parser.add_argument("--learn", action="store_true", help="run the tests once to find out which call what, and try none")
    parser.add_argument("--list", action="store_true", help="show the mutants and try none")
    return parser.parse_args()


def _drawn(options: argparse.Namespace) -> Iterator[Mutation]:
    """Mutants of each room in turn; a place is drawn first, then what to do there."""
    rooms = options.rooms.split(",")
    for room in rooms:
        if room not in TESTS:
            raise SystemExit(f"--rooms: no room {room!r}; there are {', '.join(TESTS)}")
    generators = [_of_room(room, options.seed) for room in rooms]
    for number in range(options.count):
        yield next(generators[number % len(generators)])


def _of_room(room: str, seed: int) -> Iterator[Mutation]:
    rng, places = random.Random(f"{room} {seed}"), dict[tuple[str, int], list[Mutation]]()
    texts = {path: (ROOT / path).read_text() for path in sources(ROOT, room)}
    for path, text in texts.items():
        for mutation in mutations_of(path, text):
            places.setdefault((path, mutation.line), []).append(mutation)
    lines = sorted(places)
    rng.shuffle(lines)
    for path, line in lines:
        mutation = rng.choice(places[path, line])
        if is_python(mutation.applied(texts[path])):
            yield mutation
    raise SystemExit(f"room {room!r} has no more lines to mutate; ask for fewer with --count")


def _tests(tree: Path, mutation: Mutation, calls: Path) -> list[str]:
    """The tests that a mutant meets, of those that the copy has: somebody may be writing others meanwhile."""
    source = (ROOT / mutation.path).read_text()
    calling = [] if mutation.compiled else callers(calls, source, mutation.path, mutation.line)
    return covering(tree, _room(mutation), mutation.path, calling)


def _room(mutation: Mutation) -> str:
    folder = Path(mutation.path).parts[2]
    return folder if folder in TESTS else "recommender"


def _only(options: argparse.Namespace, results: "_Results", mutation: Mutation) -> bool:
    """Whether a mutant is passed over: it was tried before, or did not survive where only survivors are asked for."""
    known = results.of(mutation)
    return known is None or known["verdict"] != SURVIVED if options.survivors else known is not None


def _shown(mutation: Mutation) -> str:
    was, new = mutation.before_and_after((ROOT / mutation.path).read_text())
    return f"{mutation.path.removeprefix('src/coldstream/')}:{mutation.line}\n{'':25}- {was[:110]}\n{'':25}+ {new[:110]}"


class _Results:
    """What became of every mutant tried so far, in a file with a line for each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._found: dict[str, dict[str, Any]] = {own["name"]: own for own in map(json.loads, lines)}

    def of(self, mutation: Mutation) -> dict[str, Any] | None:
        return self._found.get(self._name(mutation))

    def add(self, mutation: Mutation, outcome: dict[str, Any]) -> None:
        was, new = mutation.before_and_after((ROOT / mutation.path).read_text())
        own = {"name": self._name(mutation), "path": mutation.path, "line": mutation.line, "was": was, "is": new, **outcome}
        self._found[own["name"]] = own
        with self._path.open("a") as file:
            file.write(json.dumps(own, ensure_ascii=False) + "\n")

    def report(self, mutations: list[Mutation]) -> int:
        """Print the score and the survivors; 1 where fewer than nine of ten were killed."""
        tried = [(mutation, own) for mutation in mutations if (own := self.of(mutation)) is not None]
        survived = [(mutation, own) for mutation, own in tried if own["verdict"] == SURVIVED]
        known, unexplained = equivalents(), 0
        print()
        for mutation, own in survived:
            why = known.get((own["path"], own["was"], own["is"]))
            unexplained += why is None
            print(f"survived: {_shown(mutation)}\n{'':25}{'equivalent: ' + why if why else 'a test is missing'}")
        print(f"\n{'room':12} tried  killed")
        for room in TESTS:
            own_room = [own for mutation, own in tried if _room(mutation) == room]
            if own_room:
                print(f"{room:12} {len(own_room):5d}  {sum(own['verdict'] != SURVIVED for own in own_room):6d}")
        killed = len(tried) - len(survived)
        equivalent = len(survived) - unexplained
        share = killed / max(1, len(tried))
        print(f"\n{killed} of {len(tried)} mutants killed ({share:.0%})")
        for path, was, _ in outdated(known, ROOT):
            print(f"equivalent.toml lists what is not there any more: {path}: {was}")
        print(f"{equivalent} survivors are equivalent, {unexplained} are not explained")
        return int(share < 0.9)

    def _name(self, mutation: Mutation) -> str:
        return mutation.name((ROOT / mutation.path).read_text())


if __name__ == "__main__":
    sys.exit(main())
