"""Problems for timing Intarsia and its peers."""
