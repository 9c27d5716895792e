"""Learning from expectations: generalized expectation criteria, label proportions."""

from .expectation import Expectation as Expectation
from .expectation import LabelExpectation as LabelExpectation
from .expectation import MeasuredExpectation as MeasuredExpectation
from .expectation import label_count as label_count
from .expectation import label_given as label_given
from .expectation import label_proportion as label_proportion
from .generalized_expectation import ExpectationRow as ExpectationRow
from .generalized_expectation import ExpectationTable as ExpectationTable
