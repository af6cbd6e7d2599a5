"""What we must beat."""
