"""Files of a state: the archive, increments between two states, and the fork that writes them."""
