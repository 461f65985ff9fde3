"""Lines of widgets outlive what they spoke through."""

from __future__ import annotations

import subprocess
import sys

ANEW = """
import comm
from jupyter_gpufit.worker.comms import Comms
kernels = comm.get_comm_manager
for _ in range(2):
    comms = Comms(lambda event: None, lambda words: None)
    comms.install()
    comms.manager.register_comm(comm.create_comm(target_name="jupyter.widget"))
    comm.get_comm_manager = kernels
    del comms
print("goes on")
"""


def test_a_line_that_ends_with_the_ones_before_ends_no_process() -> None:
    ran = subprocess.run([sys.executable, "-c", ANEW], capture_output=True, text=True, timeout=60)

    assert (ran.stdout, ran.returncode) == ("goes on\n", 0), ran.stderr
