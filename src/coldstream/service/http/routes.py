"""The table of routes, from which routing, decoding, authorization and the OpenAPI document follow."""

from collections.abc import Callable
from typing import Any, NamedTuple

from coldstream.service.handlers import recommend as recommend_handlers
from coldstream.service.handlers import records as handlers
from coldstream.service.handlers import search as search_handlers
from coldstream.service.handlers.line_stream import LineKind
from coldstream.service.messages import core as m
from coldstream.service.messages import recommend as r
from coldstream.service.messages import search as s
from coldstream.service.messages.health import Health, Ready, StateFingerprint
from coldstream.service.messages.live import LiveQuery, LiveResponse


class Route(NamedTuple):
    """A route: its method and path, its handler, the types of body and answer, and the scope that it needs."""

    method: str
    path: str
    handler: Callable[..., Any]
    takes: Any
    """The type of the body, or with GET of the query; None where there is neither."""
    gives: Any
    """The type of the answer."""
    scope: str | None
    """The scope that a key needs; None where no key is needed."""
    writes: bool = False
    """Whether only the writer can handle it: a follower forwards it."""
    line: LineKind | None = None
    """The kind of its lines, where the body may also be JSON-lines; None where it may not."""


ROUTES: tuple[Route, ...] = (
    Route("POST", "/recommend", recommend_handlers.recommend, r.RecommendRequest, r.RecommendResponse, "read"),
    Route("POST", "/events", handlers.learn, m.Events, m.Learned, "write", True, handlers.EVENT_LINE),
    Route("POST", "/explain", recommend_handlers.explain, r.ExplainRequest, r.Explanation, "read"),
    Route("GET", "/live", search_handlers.live, LiveQuery, LiveResponse, "read"),
    Route("GET", "/schema", search_handlers.schema, s.SchemaQuery, s.SchemaInUse, "read"),
    Route("PUT", "/schema/fields", search_handlers.put_fields, m.NewFields, m.Written, "admin", True),
    Route("GET", "/items", search_handlers.find_items, s.Search, s.FoundItems, "read"),
    Route("GET", "/trending", recommend_handlers.trending, r.TrendingQuery, r.ItemList, "read"),
    Route("GET", "/new", recommend_handlers.newest, r.ListQuery, r.ItemList, "read"),
    Route("GET", "/items/{id}/similar", recommend_handlers.similar, r.ListQuery, r.ItemList, "read"),
    Route("GET", "/users", search_handlers.find_users, s.UserSearch, s.FoundUsers, "read"),
    Route("GET", "/features", search_handlers.find_features, s.FeatureSearch, s.FoundFeatures, "read"),
    Route("GET", "/features/nearest", search_handlers.nearest, s.NearestQuery, s.NearestFeatures, "read"),
    Route("GET", "/features/changed", search_handlers.changed, s.ChangedQuery, s.ChangedFeatures, "read"),
    Route("POST", "/items", handlers.put_items, m.Items, m.Written, "write", True, handlers.ITEM_LINE),
    Route("PUT", "/items/{id}", handlers.put_item, m.ItemBody, m.Written, "write", True),
    Route("GET", "/items/{id}", handlers.get_item, None, m.DescribedItem, "read"),
    Route("DELETE", "/items/{id}", handlers.delete_item, None, m.Written, "admin", True),
    Route("POST", "/users", handlers.put_users, m.Users, m.Written, "write", True, handlers.USER_LINE),
    Route("PUT", "/users/{id}", handlers.put_user, m.Attributes, m.Written, "write", True),
    Route("GET", "/users/{id}", handlers.get_user, None, m.Described, "read"),
    Route("DELETE", "/users/{id}", handlers.delete_user, None, m.Forgotten, "admin", True),
    Route("POST", "/users/{id}/merge", handlers.merge_user, m.MergedSession, m.Written, "write", True),
    Route("GET", "/evaluation", handlers.evaluation, None, m.EvaluationResponse, "read"),
    Route("GET", "/metrics", handlers.metrics, None, bytes, "read"),
    Route("GET", "/fingerprint", handlers.fingerprint, None, StateFingerprint, "admin"),
    Route("POST", "/snapshot", handlers.snapshot, m.Nothing, m.SnapshotTaken, "admin"),
    Route("GET", "/health", handlers.health, None, Health, None),
    Route("GET", "/ready", handlers.ready, None, Ready, None),
)
