"""What belongs to single users: attributes, history, items seen."""
