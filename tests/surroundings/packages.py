"""Stand-ins for packages, each with one habit that libraries have."""

from __future__ import annotations

PACKAGES = {
    "options_of.py": (
        "import argparse, pathlib, types\n"
        "args = argparse.Namespace(rate=1, out=None, where=pathlib.Path('runs'), inner=argparse.Namespace(n=0))\n"
        "beside = types.SimpleNamespace(last=None)\n"
    ),
    "loop_of.py": (
        "import os, time\n"
        "from options_of import args, beside\n"
        "args.seed = 3\n"
        "def main(hold):\n"
        "    for step in range(3):\n"
        "        args.out = args.where / f'{args.rate} {step}'; args.inner.n += 1; beside.last = step\n"
        "        print('step', step)\n"
        "        while step == 1 and not os.path.exists(hold): time.sleep(0.01)\n"
    ),
    "borg/__init__.py": "from .state import State\n",
    "borg/state.py": (
        "class State:\n"
        "    _shared = {}\n"
        "    def __init__(self, **settings):\n"
        "        self.__dict__ = self._shared\n"
        "        if not self._shared:\n"
        "            if not settings: raise RuntimeError('initialise it first')\n"
        "            self._shared.update(settings)\n"
    ),
    "shelf/__init__.py": "from .books import register, make, registry\n",
    "shelf/books.py": (
        "class Book:\n"
        "    def __init__(self, name): self.name = name\n"
        "FIRST = Book('first')\n"
        "registry = {'first': FIRST}\n"
        "def register(name): registry[name] = Book(name)\n"
        "def make(name): return registry[name]\n"
    ),
    "flags_of.py": (
        "class Flags:\n"
        "    def __init__(self): self.__dict__['__flags'] = {}; self.__dict__['__parsed'] = False\n"
        "    def define(self, name, value): self.__dict__['__flags'][name] = value\n"
        "    def parse(self): self.__dict__['__parsed'] = True\n"
        "    def __getattr__(self, name): assert self.__dict__['__parsed']; return self.__dict__['__flags'][name]\n"
        "FLAGS = Flags()\n"
    ),
    "shelf_user.py": (
        "from shelf import books\nfrom shelf.books import make\nclass Mine(books.Book): ...\n"
        "def name(): return make('first').name\n"
    ),
    "inner_most.py": "def make(): return 'its own'\n",
    "uses_it.py": "import inner_most\ndef call(): return inner_most.make()\n",
    "shelf_plugin.py": "import shelf\nshelf.register('plugged')\n",
    "learner/__init__.py": "class Learner:\n    def __init__(self): self.rate = 1\n",
    "learner_more.py": ("import learner\ndef fit(self): return 'fitted'\nlearner.Learner.fit = fit\n"),
    "learner_noisy.py": "import learner, random\nlearner.Learner.noise = random.random()\n",
    "lazy.py": "def step():\n    import lazy_inside\n",
    "lazy_inside.py": "import lazy_deeper\n",
    "lazy_deeper.py": "import random\nFIRST = random.random()\n",
    "counter.py": (
        "import threading\nstate = threading.local()\n"
        "def name():\n    state.made = getattr(state, 'made', 0) + 1\n    return f'layer_{state.made}'\n"
    ),
    "nest/__init__.py": "",
    "nest/inner.py": "def call(): return 5\n",
    "newer.py": "",
    "draws_at_once.py": "import draws_of\ndraws_of.seed(1)\n",
    "draws_of.py": (
        "import numpy as np\n"
        "class Rng:\n    def __init__(self): self.generator = np.random.default_rng()\n"
        "GLOBAL = None\n"
        "def seed(n):\n    global GLOBAL\n    GLOBAL = GLOBAL or Rng()\n"
        "    GLOBAL.generator.bit_generator.state = np.random.default_rng(n).bit_generator.state\n"
        "def draw(): return GLOBAL.generator.random()\n"
    ),
    "needs_old.py": "import newer\nSPAN = newer.old\nclass Kept:\n    def span(self): return SPAN\n",
    "says.py": "from sys import stdout\n",
    "table_of.py": (
        "class Table:\n    __slots__ = ('known',)\n"
        "class Dispatch:\n"
        "    def __init__(self): self.todo, self.table = [self.number], Table(); self.table.known = []\n"
        "    def number(self): return 1\n"
        "    def __call__(self):\n"
        "        if self.todo: self.table.known += self.todo; self.todo = []\n"
        "        return [f() for f in self.table.known]\n"
        "numbers = Dispatch()\n"
    ),
    "runtime_of.py": (
        "import ctypes\n"
        "class Runtime:\n"
        "    ready = False\n"
        "    def __init__(self): self.ready = False\n"
        "    def use(self):\n"
        "        if not self.ready: self.library = ctypes.CDLL(None); self.ready = True\n"
        "        return self.library.getpid()\n"
        "runtime = Runtime()\n"
    ),
    "both_of.py": (
        "class Both(dict):\n"  # as EasyDict: each key is an attribute, too
        "    def __setattr__(self, name, value):\n"
        "        super().__setattr__(name, value); super().__setitem__(name, value)\n"
        "class Row(list): pass\n"
        "C = config = Both(); C.seed = 1; C.motion = Both(); C.motion.deep = Both(); C.motion.deep.flat = Both()\n"
        "row = Row([1]); row.names = ['one']\n"
    ),
    "settings_of.py": (
        "import threading\nLEVEL = 1\nlock = watcher = None\n"
        "def watch():\n    global watcher\n    watcher = threading.Thread(target=print)\n"
        "class Config:\n    def __init__(self): self.rate = 1\nconfig = Config()\n"
    ),
    "gates.py": (
        "class Meta(type):\n"
        "    def __call__(cls): return cls.only\n"
        "class Gate(metaclass=Meta):\n"
        "    def __init_subclass__(cls, single=True):\n"
        "        if not single: return\n"
        "        class Single(type('Fixed', (), {}), cls, single=False):\n"
        "            def __reduce__(self): return cls, ()\n"
        "        Single.__module__ = None; Single.__qualname__ = 'Single'\n"
        "        cls.only = object.__new__(Single)\n"
        "class Hadamard(Gate): pass\n"
    ),
    "lazy_all.py": (
        "import sys, types\n"
        "class Lazy(types.ModuleType):\n"
        "    def __getattr__(self, name): raise ImportError(f'install it first, to have its {name}')\n"
        "sys.modules['lazy_all.inside'] = Lazy('lazy_all.inside')\n"
    ),
}
