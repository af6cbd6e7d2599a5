"""Erasure of deleted users from the log, the snapshots and the lists shown to them; compaction of old log lines."""
