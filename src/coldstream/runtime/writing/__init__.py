"""The one writer: check, log, learn, answer."""
