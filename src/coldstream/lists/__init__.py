"""Lists of items: recommended, similar, trending and new ones, with rules, explanations and inspection of the model."""
