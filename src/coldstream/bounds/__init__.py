"""Limits on memory and on retention, with the estimated costs and the usage statistics that they need."""
