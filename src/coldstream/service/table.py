"""The one table of calls: it drives routing, decoding, authorization and the OpenAPI document alike."""

from collections.abc import Callable
from typing import Any, NamedTuple

from coldstream.service import calls
from coldstream.service import messages as m


class Call(NamedTuple):
    """A method and a path, what goes in and out, and who may."""

    method: str
    path: str
    run: Callable[..., Any]
    takes: Any
    """The type of the body, or with GET of the query; None for neither."""
    gives: Any
    scope: str | None
    """What a key needs; None where no key is asked for."""


TABLE: tuple[Call, ...] = (
    Call("POST", "/recommend", calls.recommend, m.RecommendRequest, m.RecommendResponse, "read"),
    Call("POST", "/events", calls.learn, m.Events, m.Learned, "write"),
    Call("POST", "/explain", calls.explain, m.ExplainRequest, m.Explanation, "read"),
    Call("GET", "/live", calls.live, m.LiveQuery, m.LiveResponse, "read"),
    Call("GET", "/schema", calls.schema, None, dict[str, Any], "read"),
    Call("GET", "/items", calls.find_items, m.Search, m.FoundItems, "read"),
    Call("GET", "/users", calls.find_users, m.Search, m.FoundUsers, "read"),
    Call("GET", "/features", calls.find_features, m.Search, m.FoundFeatures, "read"),
    Call("GET", "/features/nearest", calls.nearest, m.NearestQuery, m.NearestFeatures, "read"),
    Call("GET", "/features/changed", calls.changed, m.ChangedQuery, m.ChangedFeatures, "read"),
    Call("POST", "/items", calls.put_items, m.Items, m.Written, "write"),
    Call("PUT", "/items/{id}", calls.put_item, m.Attributes, m.Written, "write"),
    Call("GET", "/items/{id}", calls.get_item, None, m.Described, "read"),
    Call("DELETE", "/items/{id}", calls.delete_item, None, m.Written, "admin"),
    Call("POST", "/users", calls.put_users, m.Users, m.Written, "write"),
    Call("PUT", "/users/{id}", calls.put_user, m.Attributes, m.Written, "write"),
    Call("GET", "/users/{id}", calls.get_user, None, m.Described, "read"),
    Call("DELETE", "/users/{id}", calls.delete_user, None, m.Forgotten, "admin"),
    Call("GET", "/evaluation", calls.evaluation, None, m.EvaluationResponse, "read"),
    Call("GET", "/metrics", calls.metrics, None, bytes, "read"),
    Call("POST", "/snapshot", calls.snapshot, None, m.SnapshotTaken, "admin"),
    Call("GET", "/health", calls.health, None, m.Health, None),
    Call("GET", "/ready", calls.ready, None, m.Ready, None),
)
