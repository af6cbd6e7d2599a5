"""HTTP in, HTTP out: recommend, interact, learn."""
