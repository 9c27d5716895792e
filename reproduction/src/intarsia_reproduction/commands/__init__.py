"""The commands `intarsia reproduce`, `intarsia bench` and `intarsia data`."""
