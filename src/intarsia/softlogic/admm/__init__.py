"""MAP inference in hinge-loss Markov random fields by consensus ADMM."""
