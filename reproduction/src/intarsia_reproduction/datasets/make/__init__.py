"""Scripts that convert a published data set into the file that our loader reads.

`python -m intarsia_reproduction.datasets.make.SET ORIGINAL OUTPUT`
"""
