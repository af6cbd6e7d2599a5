"""Processes that share a store: the writer, its followers, and how one takes over from another."""
