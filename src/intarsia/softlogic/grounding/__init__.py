"""From a program and its data to ground rules."""
