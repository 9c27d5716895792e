"""Features, models and fits that experiments share."""
