"""Factorization machines and the recommender for scikit-learn: `fit`, `partial_fit`, `predict` and `get_params`."""

from coldstream.sklearn.classifier import FMClassifier
from coldstream.sklearn.recommender import ItemRecommender
from coldstream.sklearn.regressor import FMRegressor

__all__ = ["FMClassifier", "FMRegressor", "ItemRecommender"]
