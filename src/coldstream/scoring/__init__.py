"""Scoring: from requests to scores, to the best N items, and to ranks."""
