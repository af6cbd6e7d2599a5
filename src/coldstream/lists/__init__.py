"""Lists and what is said of them: answers to requests, similar, trending and new items, rules, explanations, inspection."""
