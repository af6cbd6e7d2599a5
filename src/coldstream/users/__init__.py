"""The users: attributes, recent history and items seen, packed, with the use that decides on eviction."""
