"""Commands `intarsia reproduce`, `intarsia bench` and `intarsia data`."""
