"""The store in a folder: a log in SQLite, and snapshots as files."""
