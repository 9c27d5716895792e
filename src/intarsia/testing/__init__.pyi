"""Checks for the tests of your own classes: worlds, proposal distributions and energies."""

from .check_energy import check_energy as check_energy
from .check_proposal import check_proposal as check_proposal
from .check_world import WorldReport as WorldReport
from .check_world import check_world as check_world
