"""Example programs. They are not part of a mirror."""
