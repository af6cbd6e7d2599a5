"""The engine: changes of model, catalogue and users in one transaction, and batch training."""
