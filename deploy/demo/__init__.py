"""The demo: two real clusters, a mirror between them, and a live view."""
