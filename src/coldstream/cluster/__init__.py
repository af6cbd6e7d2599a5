"""Cluster: several learners of one stream, each with users of its own, in one process or as actors on Ray."""
