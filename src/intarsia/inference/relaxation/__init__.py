"""Linear programming relaxations, integer programs and dual decomposition."""
