"""From items to scores to the best N."""
