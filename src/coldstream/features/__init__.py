"""From a record to a sparse vector."""
