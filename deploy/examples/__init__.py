"""Programs to learn from; none is part of a mirror."""
