"""Learners on Ray. Nothing else imports Ray, and nobody imports this who was not asked to."""
