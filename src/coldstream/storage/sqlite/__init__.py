"""The store in a folder: SQLite and files."""
