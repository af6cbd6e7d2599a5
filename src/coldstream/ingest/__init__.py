"""Events from brokers and outboxes: read, sent to the service, each learned once."""
