"""Handlers of the routes: each takes a decoded request and returns the answer."""
