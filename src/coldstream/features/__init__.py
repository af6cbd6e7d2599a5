"""Features: schemas, fields, the vocabulary, and encoding records as sparse vectors."""
