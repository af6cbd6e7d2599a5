"""What must survive: the log, and snapshots of what was learned from it."""
