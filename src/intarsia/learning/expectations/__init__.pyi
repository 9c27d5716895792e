"""Learning from expectations: posterior regularization, generalized expectation criteria, label proportions."""

from .corpus import ExpectationRow as ExpectationRow
from .corpus import ExpectationTable as ExpectationTable
from .expectation import Expectation as Expectation
from .expectation import LabelExpectation as LabelExpectation
from .expectation import MeasuredExpectation as MeasuredExpectation
from .expectation import label_count as label_count
from .expectation import label_given as label_given
from .expectation import label_proportion as label_proportion
from .generalized_expectation import GeneralizedExpectation as GeneralizedExpectation
from .method import EXPECTATION_METHODS as EXPECTATION_METHODS
from .method import ExpectationMethod as ExpectationMethod
from .posterior_regularization import PosteriorRegularization as PosteriorRegularization
