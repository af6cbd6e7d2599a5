"""Test, then learn."""
