"""Variational inference: belief propagation, tree-reweighted message passing and mean field."""
