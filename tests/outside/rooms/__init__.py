"""A third party's kind, complete in one folder: what is said in a room carries through walls as far as it is loud."""
