"""Messages: the types of bodies and queries of requests, and of answers."""
