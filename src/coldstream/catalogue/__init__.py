"""The catalogue: items with their features and counts, and how to learn from a choice among them."""
