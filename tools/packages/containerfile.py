"""A Containerfile as steps, so that they can be run without an engine for containers, and are written once."""

import json
import re
from typing import NamedTuple


class Run(NamedTuple):
    """A command of the shell, and what holds while it runs."""

    command: str
    user: str
    environment: dict[str, str]


class Copy(NamedTuple):
    """Files of the context, by patterns, and the folder or file that they become."""

    sources: tuple[str, ...]
    target: str


class Image(NamedTuple):
    """What a Containerfile describes."""

    base: str
    steps: tuple[Run | Copy, ...]
    user: str
    environment: dict[str, str]
    volumes: tuple[str, ...]
    ports: tuple[int, ...]
    health: tuple[str, ...]
    entrypoint: tuple[str, ...]


_OPTIONS = re.compile(r"^(?:--[a-z-]+=\S+\s+)+")


def read(text: str) -> Image:
    """The image that a Containerfile describes; raises for an instruction that nobody here knows."""
    base, user, environment = "", "root", dict[str, str]()
    steps, volumes, ports = list[Run | Copy](), list[str](), list[int]()
    health, entrypoint = tuple[str, ...](), tuple[str, ...]()
    for word, rest in _instructions(text):
        match word:
            case "FROM":
                base = rest
            case "RUN":
                steps.append(Run(_without_options(word, rest), user, dict(environment)))
            case "COPY":
                *sources, target = _without_options(word, rest).split()
                steps.append(Copy(tuple(sources), target))
            case "ENV":
                environment |= dict([_pair(rest)])
            case "USER":
                user = rest
            case "VOLUME":
                volumes.append(rest)
            case "EXPOSE":
                ports.append(int(rest))
            case "HEALTHCHECK":
                kind, _, command = _OPTIONS.sub("", rest).partition(" ")
                if kind != "CMD":
                    raise ValueError(f"HEALTHCHECK must have a CMD, got {rest!r}")
                health = _words(word, command)
            case "ENTRYPOINT":
                entrypoint = _words(word, rest)
            case _:
                raise ValueError(
                    f"no such instruction is known here: {word} {rest!r}; teach tools/packages/containerfile.py"
                )
    return Image(base, tuple(steps), user, environment, tuple(volumes), tuple(ports), health, entrypoint)


def _instructions(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.strip().partition(" ") for line in joined.splitlines())]


def _without_options(word: str, rest: str) -> str:
    """Mounts, platforms and other owners would have to be done, too."""
    if rest.startswith("--"):
        raise ValueError(f"{word} has an option that is not known here: {rest!r}")
    return rest


def _pair(rest: str) -> tuple[str, str]:
    found = re.fullmatch(r"([A-Z_]+)=([^\s\"'$\\]+)", rest)
    if found is None:
        raise ValueError(f"ENV must be one NAME=VALUE without quotes, got {rest!r}")
    return found[1], found[2]


def _words(word: str, rest: str) -> tuple[str, ...]:
    words = json.loads(rest) if rest.startswith("[") else None
    if not isinstance(words, list):
        raise ValueError(f"{word} must be a list of words, got {rest!r}")
    return tuple(words)
