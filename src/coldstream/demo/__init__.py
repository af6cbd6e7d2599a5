"""A service to watch: scenarios that never end, and an audience that lives them over HTTP."""
