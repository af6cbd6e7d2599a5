"""The durable stores: an append-only log of events, and snapshots of the model learned from it."""
