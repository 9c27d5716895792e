"""Weight learning: learners that fit the weights of rules to labels."""
