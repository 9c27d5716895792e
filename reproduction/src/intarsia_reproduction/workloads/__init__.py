"""Problems on which Intarsia and its peers are timed."""
