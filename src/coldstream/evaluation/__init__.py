"""Prequential evaluation of recommenders: rank each event of a stream, then learn it."""
