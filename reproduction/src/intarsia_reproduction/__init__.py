"""Tables, figures and benchmarks of the papers that Intarsia implements."""
