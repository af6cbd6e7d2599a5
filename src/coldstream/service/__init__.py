"""The HTTP service: it recommends, takes events, items and users, and learns from them."""
