"""The newcomer's first sight: two real clusters, a mirror between them, and a live view of it."""
