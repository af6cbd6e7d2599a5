"""From requests to scores, the best N, and ranks."""
