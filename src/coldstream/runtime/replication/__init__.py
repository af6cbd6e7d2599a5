"""Replication: processes that share a store, of which one writes and the others follow, and failover between them."""
