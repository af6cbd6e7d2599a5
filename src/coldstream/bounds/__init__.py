"""Limits on memory and on what is remembered, and what they are measured by."""
