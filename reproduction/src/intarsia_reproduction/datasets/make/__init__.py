"""Scripts that make our file of a data set from the published original.

`python -m intarsia_reproduction.datasets.make.SET ORIGINAL OUTPUT`
"""
