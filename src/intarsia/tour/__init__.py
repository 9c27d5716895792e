"""Tour of the library: five systems on data that come with the package, run by `intarsia tour`."""
