# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A test over many seeds, for pytest: `pytest -p parley.pytest_plugin`, or `pytest_plugins = ["parley.pytest_plugin"]` in conftest.py.

A test that takes `parley_seed` runs once for each seed, 1 to 20; @pytest.mark.parley_seeds(1, 200) or --parley-seeds 1..200 gives others.
The seed is in the name of the test: `pytest "test_file.py::test_it[seed7]"` repeats it. `parley_world` is a World of that seed, closed
afterwards."""
import pytest

import parley


def _range(text):
    first, dots, last = text.partition("..")
    try:
        seeds = range(int(first, 0), int(last if dots else first, 0) + 1)
    except ValueError:
        raise pytest.UsageError(f"--parley-seeds: '{text}' is not A..B") from None
    if not seeds:
        raise pytest.UsageError(f"--parley-seeds: '{text}' is reversed; the smaller one comes first")
    return seeds


def pytest_addoption(parser):
    parser.addoption("--parley-seeds", metavar="A..B", help="the seeds of tests in virtual time (1..20)")


def pytest_configure(config):
    config.addinivalue_line("markers", "parley_seeds(first, last): the seeds that the test runs with")
    asked = config.getoption("--parley-seeds")
    config.parley_seeds = _range(asked) if asked else None


def pytest_generate_tests(metafunc):
    if "parley_seed" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("parley_seeds")
    seeds = metafunc.config.parley_seeds or (range(mark.args[0], mark.args[1] + 1) if mark else range(1, 21))
    metafunc.parametrize("parley_seed", seeds, ids=lambda seed: f"seed{seed}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """With a failure stands how far virtual time had come."""
    report = (yield).get_result()
    world = getattr(item, "funcargs", {}).get("parley_world")
    if call.when == "call" and report.failed and world is not None:
        report.sections.append(("parley", f"seed {item.funcargs['parley_seed']}, after {world.now} ns of virtual time"))


@pytest.fixture
def parley_world(parley_seed):
    with parley.World(seed=parley_seed) as world:
        yield world
