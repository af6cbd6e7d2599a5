"""Settings of the service: one table, from which the file, the environment variables, the flags and the guide follow."""

import argparse
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from coldstream.bounds.bounds import SIZES, is_age
from coldstream.config import PRESETS, Hyperparameters, preset
from coldstream.errors import InvalidInput, shown
from coldstream.service.http.addresses import are_networks, is_address, is_loopback
from coldstream.support.amounts import DURATION, SIZE, bytes_of, seconds_of

PREFIX = "COLDSTREAM_SERVE_"
"""Prefix of environment variables. `COLDSTREAM_` alone would clash: $COLDSTREAM_DATA is the folder of data sets, and
Kubernetes may set $COLDSTREAM_PORT."""


class _About(NamedTuple):
    meaning: str
    within: tuple[float, float] | None = None
    """Least and largest value of a number."""
    choices: tuple[str, ...] = ()
    metavar: str = ""
    form: tuple[str, Callable[[str], bool]] | None = None
    """What a text must be, in words, and a function that checks it."""


def _about(*about: Any, **more: Any) -> dict[str, _About]:
    return {"about": _About(*about, **more)}


def _setting(default: Any, *about: Any, **more: Any) -> Any:
    return field(default=default, metadata=_about(*about, **more))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the service. Validated when built, frozen afterwards.

    >>> Settings(port=80_000)
    Traceback (most recent call last):
        ...
    coldstream.errors.InvalidInput: port must be a whole number from 0 to 65535, got 80000
    """

    schema: Path | None = field(default=None, metadata=_about("the schema; a new log needs one", metavar="FILE.toml"))
    data: Path | None = field(
        default=None,
        metadata=_about("the folder of the log and its snapshots; needed unless `store` is given", metavar="DIR"),
    )
    store: str | None = field(
        default=None,
        repr=False,  # a URL may hold a password, which no log should show
        metadata=_about("the database, `postgresql://…`; if left out, SQLite in `data`", metavar="URL"),
    )
    host: str = _setting("127.0.0.1", "the address to listen on; one that is not loopback needs `keys`", metavar="ADDRESS")
    port: int = _setting(8000, "the port to listen on; 0 takes any that is free", (0, 65535))
    preset: str | None = _setting(
        None,
        "the hyperparameters; if left out, those of the log, in a new log `default`",
        choices=tuple(PRESETS),
        metavar="NAME",
    )
    seed: int | None = _setting(None, "of every random number; if left out, that of the log, in a new log 0", (0, 2**63 - 1))
    hyperparameters: Mapping[str, Any] = field(
        default_factory=dict, metadata=_about("changes to the preset", metavar="NAME=VALUE")
    )
    memory: str | None = _setting(
        None,
        "the most that all that is learned may weigh; if left out, as much as the log says, in a new log no bound",
        metavar="SIZE",
        form=(SIZES, lambda text: (bytes_of(text) or 0) >= 2**20),
    )
    users: int | None = _setting(None, "users that are known at once; the least useful go", (1, 2**31 - 1))
    items: int | None = _setting(None, "items in the catalogue at once; the least useful go", (1, 2**31 - 1))
    expire_users: str | None = _setting(
        None,
        "how long users are known without an event",
        metavar="AGE",
        form=('a time such as "365d" or "12h"', is_age),
    )
    seen: int | None = _setting(None, "of the items a user had, how many are remembered; in a new log 1000", (1, 2**31 - 1))
    undeclared: int | None = _setting(
        None, "context fields that events may bring and nobody declared; in a new log 100", (0, 2**31 - 1)
    )
    undeclared_values: int | None = _setting(None, "values of each of them; in a new log 10000", (1, 2**31 - 1))
    admissions: int | None = _setting(
        None, "new features that one event or put may bring; in a new log 1000", (1, 2**31 - 1)
    )
    engine: str | None = _setting(
        None, "where others learn for this process; if left out, it learns by itself", choices=("ray",), metavar="NAME"
    )
    learners: int = _setting(1, "how many learn together, each with users of its own", (1, 4096))
    address: str | None = _setting(
        None, "of the cluster of the `engine`; if left out, one on this machine that ends with it", metavar="HOST:PORT"
    )
    merge_events: int = _setting(500, "events after which learners merge", (1, 10**6))
    merge_seconds: float = _setting(1.0, "how long learners go without merging once there was an event", (0.01, 3600))
    ingest: str | None = field(
        default=None,
        repr=False,  # it may hold a password, too
        metadata=_about(
            "a broker or an outbox whose messages are learned as well, such as `nats://host:4222/STREAM`", metavar="URL"
        ),
    )
    ingest_batch: int = _setting(500, "messages of it that are learned in one call at most", (1, 1000))
    ingest_dead: Path | None = field(
        default=None,
        metadata=_about(
            "where messages go that cannot be learned; if left out, `dead-letters.jsonl` in `data`", metavar="FILE"
        ),
    )
    keys: Path | None = field(
        default=None, metadata=_about("the API keys; if left out, everybody may do everything", metavar="FILE.toml")
    )
    snapshot_events: int = _setting(100_000, "a snapshot after so many lines of the log; 0 for none by count", (0, 10**9))
    snapshot_minutes: float = _setting(
        15.0, "a snapshot after so long, if anything changed; 0 for none by time", (0, 525_600)
    )
    retain: str | None = _setting(
        None,
        "lines of the log that were written longer ago are deleted; if left out, all are kept",
        metavar="TIME",
        form=(DURATION, lambda text: seconds_of(text) is not None),
    )
    disk: str | None = _setting(
        None,
        "the most that log, snapshots and lists may take: beyond it the oldest lines are deleted; if left out, no limit",
        metavar="SIZE",
        form=(SIZE, lambda text: bytes_of(text) is not None),
    )
    shown_retain: str = _setting(
        "7d",
        "how long lists are kept that were shown: for click-through, for what was passed over, and for the next page",
        metavar="TIME",
        form=(DURATION, lambda text: seconds_of(text) is not None),
    )
    shown_disk: str = _setting(
        "1GB",
        "the most that lists that were shown may take on disk, and no more than a tenth of `disk`: the oldest are deleted",
        metavar="SIZE",
        form=(SIZE, lambda text: bytes_of(text) is not None),
    )
    shown_share: float = _setting(1.0, "of the lists that were shown, how many are kept", (0, 1))
    erase_minutes: float = _setting(
        10.0,
        "how long those who were deleted wait for others, before the log and the snapshots are rewritten without them",
        (0, 43_200),
    )
    body_bytes: int = _setting(4 * 2**20, "the longest body of a request", (1024, 2**30))
    bodies_bytes: int = _setting(
        64 * 2**20, "the most that all bodies beyond 64 KiB may hold together; more get 503", (2**16, 2**40)
    )
    body_seconds: float = _setting(
        30.0, "how long the service waits for the next bytes of a body; 1 KiB buys a second", (0.1, 3600)
    )
    header_bytes: int = _setting(2**15, "the longest path and headers of a request", (1024, 2**20))
    header_seconds: float = _setting(10.0, "how long the headers of a request may take to come", (0.1, 3600))
    idle_seconds: float = _setting(
        30.0, "how long a connection may wait for its next request, or an answer for its reader", (0.1, 3600)
    )
    connections: int | None = _setting(
        None,
        "the most connections at once; more get 503; if left out, as many as descriptors allow, 4096 at most",
        (1, 10**6),
    )
    proxies: str | None = _setting(
        None,
        "the proxies in front of the service, addresses or networks: only their X-Forwarded-For is believed",
        metavar="ADDRESS,…",
        form=("addresses or networks joined by commas, such as 10.0.0.7,192.168.0.0/24", are_networks),
    )
    pending_events: int = _setting(20_000, "the most events that may wait to be learned; more get 503", (1000, 10**7))
    requests_per_second: float = _setting(0.0, "of each key, or without keys of each address; 0 for no limit", (0, 10**6))
    evaluate_top: int = _setting(10, "N of the live recall@N", (1, 10**4))
    evaluate_window: int = _setting(3000, "T, the number of events that the live recall looks back on", (1, 10**7))
    evaluate_share: float = _setting(0.25, "the most of the writer's time that ranking before learning may take", (0, 1))
    log_level: str = _setting(
        "info", "the least that is logged", choices=("debug", "info", "warning", "error"), metavar="LEVEL"
    )
    access_log: bool = _setting(False, "whether every request is logged")
    announce: str | None = _setting(
        None,
        "where the other replicas on the same database reach this one; if left out, `host` and `port`",
        metavar="HOST:PORT",
        form=("a host and a port such as 10.0.0.5:8000", is_address),
    )
    failover_seconds: float = _setting(
        2.5, "how long a follower sees no sign of life of the writer before it takes its place", (0.5, 3600)
    )
    forward_seconds: float = _setting(
        10.0, "how long a follower looks for a writer that takes what is written, before it answers 503", (0.1, 600)
    )
    after_seconds: float = _setting(
        2.0, "how long a request waits for the line of the log that it names with `after`", (0, 600)
    )
    drain_seconds: float = _setting(
        0.0, "how long a stop goes on answering while `/ready` says no, so that a proxy hears of it first", (0, 3600)
    )
    shutdown_seconds: float = _setting(30.0, "how long a stop waits for requests in progress", (0, 3600))

    def __post_init__(self) -> None:
        for setting in fields(self):
            object.__setattr__(self, setting.name, _checked(setting, getattr(self, setting.name), setting.name))
        _check_learning(self.preset, self.hyperparameters, "hyperparameters")


def settled(file: Path | None, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Settings:
    """Return the settings from all sources: flags win over variables, variables over the file, the file over defaults.

    Raises `InvalidInput` for a setting that is refused, with its source, and unless one of `data` and `store` is set.
    """
    values: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    changed_by = []
    for name, raw, source in (*_in_file(file), *_in_environment(environ), *_in_flags(flags)):
        values[name] = _checked(_TABLE[name], raw, f"{name} ({source})")
        if name == "hyperparameters":
            changes |= values[name]
            changed_by.append(source)
    _check_learning(values.get("preset"), changes, f"hyperparameters ({', '.join(changed_by)})")
    settings = Settings(**values | {"hyperparameters": changes})
    if settings.data is None and settings.store is None:
        raise InvalidInput("data is missing, and so is store; give a folder, --data DIR, or a database, --store URL")
    if settings.data is not None and settings.store is not None:
        raise InvalidInput(
            f"data is {str(settings.data)!r}, and store is given too; give one of them: where the log is to be"
        )
    return settings


def check_exposure(settings: Settings) -> None:
    """Raise `InvalidInput` for an address that other machines can reach, unless there are keys."""
    if settings.keys is None and not is_loopback(settings.host):
        remedy = "give --keys FILE (`coldstream keys add` makes one), or listen on 127.0.0.1"
        raise InvalidInput(f"host {shown(settings.host)} is not loopback, so strangers could do everything; {remedy}")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Declare a flag for every setting, and `--config`."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE.toml", help="a file of settings; variables and flags win over it"
    )
    for setting in _TABLE.values():
        metavar = setting.metadata["about"].metavar or _KINDS[setting.type].metavar
        options: dict[str, Any] = {"dest": setting.name, "help": _help(setting)}
        if setting.type is bool:
            parser.add_argument(_flag(setting.name), action=argparse.BooleanOptionalAction, **options)
        else:
            action = "append" if setting.name == "hyperparameters" else "store"
            parser.add_argument(_flag(setting.name), action=action, metavar=metavar, **options)


def given(args: argparse.Namespace) -> dict[str, Any]:
    """Return the flags of `add_flags` that stand on the command line."""
    return {name: value for name, value in vars(args).items() if name in _TABLE and value is not None}


def table() -> str:
    """Return all settings as the Markdown table of the guide."""
    rows = [
        f"| `{setting.name}` | {_default(setting)} | {_must_be(setting)} | {setting.metadata['about'].meaning} |"
        for setting in _TABLE.values()
    ]
    return "\n".join(["| setting | default | must be | what it is |", "|---|---|---|---|", *rows])


# Sources: each yields the name of a setting, its raw value, and the name of the source for errors


def _in_file(file: Path | None) -> Iterator[tuple[str, object, str]]:
    if file is None:
        return
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"settings {str(file)!r} cannot be read: {error}; give the path of a TOML file") from error
    for name, raw in document.items():
        _check_name(name, f"{name!r} in {file}", raw)
        yield name, raw, f"in {file}"


def _in_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, object, str]]:
    for variable, text in environ.items():
        if variable.startswith(PREFIX) and text:  # many tools leave a variable empty to unset it
            name = variable.removeprefix(PREFIX).lower()
            _check_name(name, variable, text)
            # A comma separates two changes only if name=value follows: trends=[100,500] is one change.
            pairs = re.split(r",(?=\s*\w+\s*=)", text)
            yield name, _pairs(pairs, variable) if name == "hyperparameters" else _from_text(name, text), variable


def _in_flags(flags: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    for name, raw in flags.items():
        _check_name(name, _flag(name), raw)
        yield name, _pairs(raw, _flag(name)) if name == "hyperparameters" else _from_text(name, raw), _flag(name)


def _check_name(name: str, written: str, raw: object) -> None:
    if name in Hyperparameters.__dataclass_fields__:
        remedy = "write it below [hyperparameters], or give --set NAME=VALUE"
        raise InvalidInput(f"{written}: is a hyperparameter and no setting, got {shown(raw)}; {remedy}")
    if name not in _TABLE:
        raise InvalidInput(f"{written}: no such setting, got {shown(raw)}; known are {', '.join(_TABLE)}")


def _from_text(name: str, raw: Any) -> object:
    return _literal(raw) if isinstance(raw, str) and _TABLE[name].type in (bool, int, int | None, float) else raw


def _pairs(pairs: list[str], source: str) -> dict[str, object]:
    changes = {}
    for pair in pairs:
        name, _, text = map(str.strip, pair.partition("="))
        if not name or not text:
            raise InvalidInput(f"hyperparameters ({source}) must be name=value, got {shown(pair)}")
        changes[name] = _literal(text)
    return changes


def _literal(text: str) -> object:
    """Return the value of a text in TOML; a text that is no TOML stays as it is."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text


# Kinds: what a value of each type of setting must be


class _Kind(NamedTuple):
    words: str
    types: tuple[type, ...]
    make: Callable[[Any], Any]
    metavar: str = ""


_KINDS: Mapping[Any, _Kind] = {
    bool: _Kind("true or false", (bool,), bool),
    int: _Kind("a whole number", (int,), int, "N"),
    int | None: _Kind("a whole number", (int,), int, "N"),
    float: _Kind("a number", (int, float), float, "X"),
    str: _Kind("a text", (str,), str),
    str | None: _Kind("a text", (str,), str),
    Path | None: _Kind("a path", (str, Path), Path),
    Mapping[str, Any]: _Kind("a table of hyperparameters", (Mapping,), dict),
}


def _checked(setting: Field[Any], raw: object, where: str) -> Any:
    """Validate a raw value and return it as its setting holds it. Raises `InvalidInput`, which begins with `where`."""
    if raw is None and setting.default is None:
        return None
    kind = _KINDS[setting.type]
    of_kind = isinstance(raw, kind.types) and isinstance(raw, bool) == (setting.type is bool)
    if not of_kind or not _is_allowed(setting, raw):
        raise InvalidInput(f"{where} must be {_must_be(setting)}, got {shown(raw)}")
    return kind.make(raw)


def _is_allowed(setting: Field[Any], raw: Any) -> bool:
    about: _About = setting.metadata["about"]
    if about.within:
        return bool(about.within[0] <= raw <= about.within[1])
    if about.choices:
        return raw in about.choices
    if about.form:
        return about.form[1](raw)
    return raw != "" or setting.name == "host"  # an empty host stands for all addresses


def _check_learning(base: str | None, changes: Mapping[str, Any], where: str) -> None:
    known = [one.name for one in fields(Hyperparameters)]
    for name, value in changes.items():
        if name not in known:
            raise InvalidInput(f"{where}: no hyperparameter {name!r}, got {shown(value)}; known are {', '.join(known)}")
    try:
        preset(base or "default", **changes)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


# Words: how flags, errors and the guide name things


def _flag(name: str) -> str:
    return "--set" if name == "hyperparameters" else "--" + name.replace("_", "-")


def _must_be(setting: Field[Any]) -> str:
    about, words = setting.metadata["about"], _KINDS[setting.type].words
    if about.form:
        return str(about.form[0])
    if about.within:
        return f"{words} from {about.within[0]} to {about.within[1]}"
    return f"one of {', '.join(about.choices)}" if about.choices else words


def _default(setting: Field[Any]) -> str:
    value = setting.default
    if value is None or value is MISSING:
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _help(setting: Field[Any]) -> str:
    about, default = setting.metadata["about"], _default(setting)
    text = ": ".join(filter(None, (about.meaning, ", ".join(about.choices)))) + (
        "" if default == "none" else f" ({default})"
    )
    return text.replace("`", "").replace("%", "%%")


_TABLE: Mapping[str, Field[Any]] = {setting.name: setting for setting in fields(Settings)}
