"""The single writer: check records, commit them to the log, learn them, and answer the callers."""
