"""The factorization machine: parameters, gradients and updates."""
