"""The demo: simulated scenarios, and a client that plays them against a running service over HTTP."""
