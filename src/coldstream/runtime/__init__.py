"""Log first, learn second, answer third: the one writer, snapshots, recovery, and the check that all of it agrees."""
