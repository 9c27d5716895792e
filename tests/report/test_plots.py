import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import intarsia
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import FactorGraph
from intarsia.report import detect_grid, plot_comparison, plot_marginals, save_figure
from intarsia.report.plots import Panel


def without_shape(graph, order=None):
    """Return a graph with the same edges as read from a file: shuffled, reversed, without a shape."""
    edges = graph.scope_idx.reshape(-1, 2)
    if order is not None:
        edges = edges[order][:, ::-1]
    return FactorGraph(graph.n_states, np.arange(0, edges.size + 1, 2), edges.reshape(-1).copy())


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 2), (5, 4), (4, 12), (20, 20)])
@pytest.mark.parametrize("connectivity", [4, 8])
def test_grids_are_detected(shape, connectivity):
    graph = intarsia.grid_graph(*shape, 2, connectivity=connectivity)
    order = np.random.default_rng(0).permutation(graph.n_factors)
    assert detect_grid(without_shape(graph, order)) == shape
    assert detect_grid(graph) == shape


def test_torus_is_detected_as_grid():
    edges = intarsia.grid_graph(4, 5, 2).scope_idx.reshape(-1, 2).tolist()
    edges += [[5 * r + 4, 5 * r] for r in range(4)] + [[c, 15 + c] for c in range(5)]
    assert detect_grid(intarsia.from_edges(2, edges)) == (4, 5)


@pytest.mark.parametrize(
    "graph",
    [
        intarsia.chain_graph(6, 2),
        intarsia.graph.star_graph(8, 2),
        intarsia.graph.complete_graph(9, 2),
        intarsia.from_edges(2, [[0, 1], [1, 2], [2, 3], [3, 0]]),
        intarsia.from_edges(2, intarsia.grid_graph(3, 3, 2).scope_idx.reshape(-1, 2)[1:]),
        intarsia.from_edges(2, [*intarsia.grid_graph(3, 3, 2).scope_idx.reshape(-1, 2).tolist(), [0, 5]]),
        FactorGraph([2, 2, 2, 2], [0, 3], [0, 1, 2]),
        FactorGraph([2] * 4, [0], []),
        FactorGraph([], [0], []),
    ],
    ids=["chain", "star", "complete", "ring", "an edge missing", "an edge too many", "three-way", "no edges", "empty"],
)
def test_other_graphs_are_not_grids(graph):
    assert detect_grid(graph) is None


def solve(graph, **more):
    theta = np.random.default_rng(0).standard_normal(graph.n_theta)
    return intarsia.infer(graph, theta, "brute_force", **more)


def test_binary_grid_shows_the_probability_of_state_1():
    result = solve(intarsia.grid_graph(3, 4, 2))
    figure = plot_marginals(result)
    image = figure.axes[0].images[0].get_array()
    expected = [result.marginals(v)[1] for v in range(12)]
    np.testing.assert_allclose(np.asarray(image).ravel(), expected)
    assert "exact" in figure.axes[0].get_title(loc="left")


def test_several_states_have_colours_and_a_legend():
    figure = plot_marginals(solve(intarsia.grid_graph(2, 3, 4)))
    assert figure.axes[0].images[0].get_array().shape == (2, 3, 3)
    assert len(figure.axes[0].get_legend().get_texts()) == 4


@pytest.mark.parametrize("n_states", [2, 3])
def test_assignment_has_one_colour_per_state_and_no_colour_bar(n_states):
    result = solve(intarsia.grid_graph(3, 3, n_states), task="map")
    figure = plot_marginals(result)
    (axes,) = figure.axes  # no colour bar
    colours = np.asarray(axes.images[0].get_array()).reshape(9, 3)
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [f"state {k}" for k in range(n_states)]
    patches = np.array([patch.get_facecolor()[:3] for patch in legend.get_patches()])
    np.testing.assert_allclose(colours, patches[result.assignment])
    assert "labelling" in axes.get_title(loc="left")


@pytest.mark.parametrize(
    "graph", [intarsia.chain_graph(3, 2), intarsia.chain_graph(3, 13), intarsia.grid_graph(4, 2, 3)]
)
@pytest.mark.parametrize("task", ["marginals", "map"])
def test_title_and_legend_do_not_overlap_and_stay_inside(graph, task):
    figure = plot_marginals(solve(graph, task=task))
    figure.canvas.draw()
    axes = figure.axes[0]
    title = axes._left_title.get_window_extent()
    legend = axes.get_legend().get_window_extent()
    assert not title.overlaps(legend)
    for box in (title, legend):
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


def test_bars_show_the_marginals_up_to_a_limit():
    graph = intarsia.chain_graph(5, 3)
    result = solve(graph)
    figure = plot_marginals(result, max_variables=4)
    heights = np.array([bar.get_height() for bar in figure.axes[0].patches]).reshape(3, 4)
    np.testing.assert_allclose(heights[::-1].T, [result.marginals(v) for v in range(4)])
    assert "first 4 of 5" in figure.axes[0].get_xlabel()


@pytest.mark.parametrize("graph", [intarsia.from_edges([2, 30, 3], [[0, 1]]), FactorGraph([], [0], [])])
def test_unequal_states_and_empty_graphs(graph, tmp_path):
    save_figure(plot_marginals(solve(graph, task="map")), tmp_path / "x.png")


def test_infeasible_models_cannot_be_plotted():
    graph = intarsia.chain_graph(2, 2)
    result = intarsia.infer(graph, np.full(graph.n_theta, -np.inf), "brute_force")
    with pytest.raises(NotSupportedError, match="holds no marginals"):
        plot_marginals(result)


def test_comparison_has_one_colour_scale(tmp_path):
    images = [Panel("a", "one", np.full((2, 3), 0.2)), Panel("b", "two", np.full((2, 3), 5.0), kind="input")]
    figure = plot_comparison([*images, images[0]], title="three", n_columns=2)
    assert figure.axes[0].images[0].get_clim() == (0, 1)
    assert isinstance(figure.canvas, FigureCanvasAgg)
    save_figure(figure, tmp_path / "c.svg")
    assert (tmp_path / "c.svg").read_text().startswith("<?xml")
    with pytest.raises(InvalidInputError, match="panels is empty"):
        plot_comparison([])


def test_unknown_image_formats_raise(tmp_path):
    with pytest.raises(InvalidInputError, match="unknown image format"):
        save_figure(plot_marginals(solve(intarsia.chain_graph(2, 2))), tmp_path / "x.docx")
