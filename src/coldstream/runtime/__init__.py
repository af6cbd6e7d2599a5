"""The service's core: a write-ahead log, its single writer, followers, snapshots, recovery, erasure and verification."""
