"""HTTP itself: connections, keys, limits, errors, routes, OpenAPI."""
