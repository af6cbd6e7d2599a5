"""A service to watch: scenarios that never end, and an audience that acts them out over HTTP."""
