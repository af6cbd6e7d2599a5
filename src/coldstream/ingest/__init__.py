"""Ingestion of events from message brokers and outbox tables into the service, each event learned once."""
