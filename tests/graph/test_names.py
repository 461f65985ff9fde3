"""Which names go along with a cell, and which come back."""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

from jupyter_gpufit.graph import ship
from tests.libraries import need

from .crossing import cross_here, notebook


def test_names_between_underscores_are_the_notebooks_unless_python_keeps_them() -> None:
    namespace = notebook("__file__ = 'a.py'\ndef where(): return __file__")

    returned = cross_here(namespace, "seen = where(); __file__ = 'b.py'; __version__ = 1; __doc__ = 2; __gf__ = 3")

    assert set(returned.returned.names) == {"seen", "__file__", "__version__"} and namespace["seen"] == "a.py"
    assert namespace["where"]() == "b.py"


def test_names_that_functions_use_travel_with_them() -> None:
    namespace = notebook(
        "K = [1]; unused = 2\ndef g(): return [K for _ in '1']\nclass A:\n    def f(self): return g()\na = A()"
    )

    shipment = ship(["a"], namespace)

    assert shipment.names == ("a", "A", "g", "K")
    assert set(shipment.sizes) == {"a", "A", "g", "K"} and all(shipment.sizes.values())


def test_attributes_are_not_taken_for_globals() -> None:
    namespace = notebook("data = [0] * 1000\ndef f(x): return x.data")

    assert ship(["f"], namespace).names == ("f",)


def test_what_the_shell_gives_stays_and_what_a_cell_names_so_goes_along() -> None:
    namespace = notebook("def uses(): return In, Out, get_ipython, exit, quit, open")
    shells = InteractiveShell.instance().user_ns
    namespace |= {name: shells[name] for name in ("In", "Out", "get_ipython", "exit", "quit", "open")}
    assert ship(["uses"], namespace).names == ("uses",)

    namespace = notebook(
        "from gzip import open\nfrom IPython.display import display\nIn, Out = 784, [10]\ndef exit(): return In"
    )
    returned = cross_here(namespace, "Out.append(exit()); gzip = open.__module__; seen = display; In = 5").returned

    assert namespace["Out"] == [10, 784] and namespace["gzip"] == "gzip" and namespace["In"] == 5
    assert namespace["seen"] is namespace["display"] and set(returned.names) == {"gzip", "seen", "In"}


def test_a_function_of_scipys_is_looked_for_in_its_library_and_not_in_the_notebook() -> None:
    """It says of no module, and pickle would take the first that has it: a notebook's second name, say."""
    need("scipy")
    namespace = notebook("from scipy.special import gamma\ntable = {'g': gamma}\n")

    assert b"find_in_module" in ship(["table"], namespace).graph
    cross_here(namespace, "assert table['g'](3.0) == 2.0", "table", "gamma")
