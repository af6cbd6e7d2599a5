"""The HTTP layer: connections, keys, limits, errors, routes and OpenAPI."""
