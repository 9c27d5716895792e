"""Rule language of probabilistic soft logic: syntax trees, parser and checks."""
