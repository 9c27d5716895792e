"""Features of whole clusters for `EntityClusterer`: built-in ones, and ones that a user writes."""
