"""The items there are: what they bring, what is counted of them, and how to learn from a choice among them."""
