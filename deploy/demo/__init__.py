"""A first look at the project: two real clusters, a mirror between them, and a live view of it."""
