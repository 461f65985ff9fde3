"""What holds for a whole process and stands in no variable, on its way with a cell and back.

A cell of a notebook leans on more than its variables: on what earlier cells registered in a library, on shared states
that objects find through their class, on modules that were imported for what they do to other modules, on sys.argv.

    holders   what of a module can hold state, and where in it that is
    imports   what is imported, in which order, and what an import changed in modules that were there before
    changes   what has changed in modules since they were imported, in a form that another process can apply
    added_names  what libraries add to numpy, torch and others whose changes are not looked for
    start     sys.argv and its like
    process   what a snapshot takes of the process: signals, loggers, limits
    twins     settings that only calls reach
    contexts  those of Python's contexts
    given     what a cell gives to no name
    frames    where an error was raised, for %debug
    magics    those that cells and extensions gave to the shell
    travel    all of it among the variables: START HERE

Beside it: random generators (generators.py), settings that libraries have calls for (modes.py), who reads the program
of a generator in use (midway.py), what the user's modules hold with arrays in it (own_values.py) and libraries'
generators (own_generators.py). Not covered: state inside compiled code, arrays and tensors in packages that are written
to in place, and modules of the standard library and of torch, but for the attributes that a cell's text assigns.
"""
