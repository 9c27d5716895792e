"""Review of doubtful decisions on a local web page; answers become links and labels."""
