"""`python -m jupyter_gpufit.worker FD`: a worker that waits on socket FD for its job."""

from .child import main

main()
