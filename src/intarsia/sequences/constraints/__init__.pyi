"""Hard constraints on label sequences: rules, their automata, and exact inference under them."""

from .constrain import ConstrainedLabels as ConstrainedLabels
from .constrain import constrain as constrain
from .rule import Rule as Rule
from .rules import count as count
from .rules import each_side as each_side
from .rules import exactly_once as exactly_once
from .rules import fixed as fixed
from .rules import in_order as in_order
from .rules import needs as needs
from .rules import not_together as not_together
from .rules import once as once
from .rules import one_of as one_of
from .rules import when as when
