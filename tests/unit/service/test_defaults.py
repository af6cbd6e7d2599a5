"""What a request means that leaves something out: clients rely on it, so it changes on purpose or not at all."""

import inspect
from types import ModuleType

import msgspec

from coldstream.service.messages import core as messages
from coldstream.service.messages import health as health_messages
from coldstream.service.messages import live as live_messages
from coldstream.service.messages import recommend as recommend_messages
from coldstream.service.messages import search as search_messages

DEFAULTS = {
    "LiveQuery": {"since": -1},
    "Attributes": {"attributes": {}},
    "ItemBody": {"attributes": {}, "hidden": False},
    "NewItem": {"attributes": {}, "hidden": False},
    "NewUser": {"attributes": {}},
    "NewEvent": {"context": {}, "passed_over": []},
    "NewFields": {"user": {}, "item": {}, "context": {}},
    "BoostBody": {"factor": 2.0},
    "RulesBody": {"boosts": [], "most_per": {}, "pins": [], "diversity": 0.0},
    "RecommendRequest": {"n": 10, "context": {}, "explain": False, "describe": False, "remember": False},
    "ExplainRequest": {"context": {}},
    "ListQuery": {"n": 10, "describe": False},
    "TrendingQuery": {"n": 10, "describe": False},
    "Search": {"search": "", "limit": 20, "after": 0},
    "UserSearch": {"search": "", "limit": 20, "after": 0},
    "FeatureSearch": {"search": "", "limit": 20, "after": 0},
    "SchemaQuery": {"limit": 256, "after": 0, "values": 50},
    "NearestQuery": {"n": 10},
    "ChangedQuery": {"n": 10},
}
"""By message; what is not named here has to be given, or stands for nothing."""


def defaults_of(module: ModuleType) -> dict[str, dict[str, object]]:
    """Of all messages that clients send: they refuse fields that they do not know."""
    found = dict[str, dict[str, object]]()
    for name, own in vars(module).items():
        if not inspect.isclass(own) or not issubclass(own, msgspec.Struct) or own.__module__ != module.__name__:
            continue
        if not own.__struct_config__.forbid_unknown_fields:
            continue
        for field in msgspec.structs.fields(own):
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            if default is not None and default is not msgspec.NODEFAULT:
                found.setdefault(name, {})[field.name] = default
    return found


def test_what_clients_may_leave_out() -> None:
    modules = (health_messages, live_messages, messages, recommend_messages, search_messages)
    found = {name: own for module in modules for name, own in defaults_of(module).items()}
    assert found == DEFAULTS
