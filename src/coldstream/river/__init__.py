"""Factorization machines for River: a regressor, a classifier and a ranker, with River's own names and conventions."""

from coldstream.river.classifier import FMClassifier
from coldstream.river.ranker import FMRanker
from coldstream.river.regressor import FMRegressor

__all__ = ["FMClassifier", "FMRanker", "FMRegressor"]
