"""Maps of walkers: colours show the numbers, arrows show the moves."""

import numpy as np
import pytest
from matplotlib.quiver import Quiver
from scipy import sparse

from intarsia.exceptions import InvalidInputError
from intarsia.report import save_figure
from intarsia_reproduction.models.flow_maps import mean_displacement, plot_flow_map, plot_flow_maps

POSITIONS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
FLOWS = np.array([[4.0, 1.0, 3.0], [0.0, 2.0, 0.0], [0.0, 0.0, 5.0]])


def test_displacement_is_the_mean_over_leaving_walkers():
    for flows in (FLOWS, sparse.csr_array(FLOWS)):
        leaving, shift = mean_displacement(flows, POSITIONS)
        np.testing.assert_array_equal(leaving, [4, 0, 0])
        np.testing.assert_allclose(shift, [[0.25, 0.75], [0, 0], [0, 0]])


def test_map_shows_numbers_and_arrows(tmp_path):
    figure = plot_flow_map([8.0, 2.0, 5.0], POSITIONS, FLOWS, title="week 3")
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.collections[0].get_array(), [8.0, 2.0, 5.0])
    (arrows,) = [part for part in axes.collections if isinstance(part, Quiver)]
    assert (arrows.U.tolist(), arrows.V.tolist(), arrows.XY.tolist()) == ([0.25], [0.75], [[0.0, 0.0]])
    save_figure(figure, tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 1000


def test_maps_have_a_common_scale_and_neighbours_share_an_arrow():
    both = np.array([[0.0, 1.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    figure = plot_flow_maps([[1.0, 2.0, 3.0], [9.0, 0.0, 0.0]], POSITIONS, [both, None], n_columns=1, max_arrows=1)
    assert {axes.collections[0].get_clim() for axes in figure.axes[:2]} == {(0.0, 9.0)}
    (arrows,) = [part for part in figure.axes[0].collections if isinstance(part, Quiver)]
    # one block: 1 walker moves from (0, 0) to (1, 0), and 9 move back
    np.testing.assert_allclose(arrows.XY, [[0.9, 0.0]])
    np.testing.assert_allclose([arrows.U, arrows.V], [[-0.8], [0.0]])
    assert not [part for part in figure.axes[1].collections if isinstance(part, Quiver)]


def test_map_without_moves():
    figure = plot_flow_map([1.0, 0.0, 0.0], POSITIONS, np.eye(3))
    assert not [part for part in figure.axes[0].collections if isinstance(part, Quiver)]


def test_wrong_shapes_raise():
    with pytest.raises(InvalidInputError, match="walkers have shapes"):
        plot_flow_map([1.0, 2.0], POSITIONS)
    with pytest.raises(InvalidInputError, match="1 flows for 2 maps"):
        plot_flow_maps([[1.0] * 3] * 2, POSITIONS, [FLOWS])
    with pytest.raises(InvalidInputError, match="flows have shape"):
        mean_displacement(np.eye(2), POSITIONS)
