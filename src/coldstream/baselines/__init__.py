"""Incremental baseline recommenders to compare against: random, popularity, Markov, item-kNN and EASE."""
