"""What `intarsia tour` runs: five systems on data that come with the package."""
