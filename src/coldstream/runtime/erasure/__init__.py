"""Erasure of people from the log, the snapshots and the lists that were shown; compaction of old lines."""
