"""Snapshots: the file archive, increments between two states, and the fork that writes them."""
