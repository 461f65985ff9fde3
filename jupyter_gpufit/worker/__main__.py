"""`python -m jupyter_gpufit.worker FD`: a worker that waits on socket FD for its job; `--forks FD`: a spare."""

from ..system.collecting import for_good

with for_good():
    from .child import main

main()
