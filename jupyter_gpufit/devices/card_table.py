"""Cards of labs and desks by size and capability, for `--on`; their peak rates are not known here.

CUDA cores and GiB from tables of published figures (github.com/javiabellan/deep-learning for the GeForce 10 to 20 and
the Titans, github.com/CYBIRD-D/How-to-Choose-your-LLM-Model-for-translation for the 30 to 50 with their laptop forms);
those of workstations are their data sheets' (CUDA cores, GB), not looked up again; those of some cards for data
centres and of the GTX 1650 and 1660 SUPER were not looked up, and neither were most MiB. Multiprocessors are cores
divided by 128 (64 on Volta, Turing and the P100).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Listed:
    """One name, in all its sizes."""

    name: str
    mebibytes: tuple[int, ...]
    capability: tuple[int, int]
    sms: int


# Name | MiB, also of several sizes | capability | multiprocessors
_TABLE = """
NVIDIA GeForce GTX 1050 | 2048 3072 | 6.1 | 5
NVIDIA GeForce GTX 1050 Ti | 4096 | 6.1 | 6
NVIDIA GeForce GTX 1060 | 3072 6144 | 6.1 | 10
NVIDIA GeForce GTX 1070 | 8192 | 6.1 | 15
NVIDIA GeForce GTX 1070 Ti | 8192 | 6.1 | 19
NVIDIA GeForce GTX 1080 | 8192 | 6.1 | 20
NVIDIA GeForce GTX 1080 Ti | 11264 | 6.1 | 28
NVIDIA TITAN X (Pascal) | 12288 | 6.1 | 28
NVIDIA TITAN Xp | 12288 | 6.1 | 30
NVIDIA TITAN V | 12288 | 7.0 | 80
NVIDIA TITAN RTX | 24576 | 7.5 | 72
NVIDIA GeForce GTX 1650 | 4096 | 7.5 | 14
NVIDIA GeForce GTX 1650 SUPER | 4096 | 7.5 | 20
NVIDIA GeForce GTX 1660 | 6144 | 7.5 | 22
NVIDIA GeForce GTX 1660 SUPER | 6144 | 7.5 | 22
NVIDIA GeForce GTX 1660 Ti | 6144 | 7.5 | 24
NVIDIA GeForce RTX 2060 | 6144 12288 | 7.5 | 30
NVIDIA GeForce RTX 2060 SUPER | 8192 | 7.5 | 34
NVIDIA GeForce RTX 2070 | 8192 | 7.5 | 36
NVIDIA GeForce RTX 2070 SUPER | 8192 | 7.5 | 40
NVIDIA GeForce RTX 2080 | 8192 | 7.5 | 46
NVIDIA GeForce RTX 2080 SUPER | 8192 | 7.5 | 48
NVIDIA GeForce RTX 3050 | 6144 8192 | 8.6 | 20
NVIDIA GeForce RTX 3060 | 8192 12288 | 8.6 | 28
NVIDIA GeForce RTX 3060 Ti | 8192 | 8.6 | 38
NVIDIA GeForce RTX 3070 | 8192 | 8.6 | 46
NVIDIA GeForce RTX 3070 Ti | 8192 | 8.6 | 48
NVIDIA GeForce RTX 3080 | 10240 12288 | 8.6 | 68
NVIDIA GeForce RTX 3080 Ti | 12288 | 8.6 | 80
NVIDIA GeForce RTX 3090 Ti | 24564 | 8.6 | 84
NVIDIA GeForce RTX 3050 Laptop GPU | 4096 6144 | 8.6 | 16
NVIDIA GeForce RTX 3050 Ti Laptop GPU | 4096 | 8.6 | 20
NVIDIA GeForce RTX 3060 Laptop GPU | 6144 | 8.6 | 30
NVIDIA GeForce RTX 3070 Laptop GPU | 8192 | 8.6 | 40
NVIDIA GeForce RTX 3070 Ti Laptop GPU | 8192 | 8.6 | 46
NVIDIA GeForce RTX 3080 Laptop GPU | 8192 16384 | 8.6 | 48
NVIDIA GeForce RTX 3080 Ti Laptop GPU | 16384 | 8.6 | 58
NVIDIA GeForce RTX 4060 | 8188 | 8.9 | 24
NVIDIA GeForce RTX 4060 Ti | 8188 16380 | 8.9 | 34
NVIDIA GeForce RTX 4070 | 12282 | 8.9 | 46
NVIDIA GeForce RTX 4070 SUPER | 12282 | 8.9 | 56
NVIDIA GeForce RTX 4070 Ti | 12282 | 8.9 | 60
NVIDIA GeForce RTX 4070 Ti SUPER | 16376 | 8.9 | 66
NVIDIA GeForce RTX 4080 | 16376 | 8.9 | 76
NVIDIA GeForce RTX 4080 SUPER | 16376 | 8.9 | 80
NVIDIA GeForce RTX 4090 D | 24564 | 8.9 | 114
NVIDIA GeForce RTX 4050 Laptop GPU | 6141 | 8.9 | 20
NVIDIA GeForce RTX 4060 Laptop GPU | 8188 | 8.9 | 24
NVIDIA GeForce RTX 4070 Laptop GPU | 8188 | 8.9 | 36
NVIDIA GeForce RTX 4080 Laptop GPU | 12282 | 8.9 | 58
NVIDIA GeForce RTX 4090 Laptop GPU | 16376 | 8.9 | 76
NVIDIA GeForce RTX 5050 | 8151 | 12.0 | 20
NVIDIA GeForce RTX 5060 | 8151 | 12.0 | 30
NVIDIA GeForce RTX 5060 Ti | 8151 16311 | 12.0 | 36
NVIDIA GeForce RTX 5070 | 12227 | 12.0 | 48
NVIDIA GeForce RTX 5070 Ti | 16303 | 12.0 | 70
NVIDIA GeForce RTX 5080 | 16303 | 12.0 | 84
NVIDIA GeForce RTX 5050 Laptop GPU | 8151 | 12.0 | 20
NVIDIA GeForce RTX 5060 Laptop GPU | 8151 | 12.0 | 26
NVIDIA GeForce RTX 5070 Laptop GPU | 8151 | 12.0 | 36
NVIDIA GeForce RTX 5070 Ti Laptop GPU | 12227 | 12.0 | 46
NVIDIA GeForce RTX 5080 Laptop GPU | 16303 | 12.0 | 60
NVIDIA GeForce RTX 5090 Laptop GPU | 24463 | 12.0 | 82
Quadro P1000 | 4096 | 6.1 | 5
Quadro P2000 | 5120 | 6.1 | 8
Quadro P2200 | 5120 | 6.1 | 10
Quadro P4000 | 8192 | 6.1 | 14
Quadro P5000 | 16384 | 6.1 | 20
Quadro P6000 | 24576 | 6.1 | 30
Quadro GV100 | 32768 | 7.0 | 80
Quadro RTX 4000 | 8192 | 7.5 | 36
Quadro RTX 5000 | 16384 | 7.5 | 48
Quadro RTX 6000 | 24576 | 7.5 | 72
NVIDIA T400 | 2048 | 7.5 | 6
NVIDIA T400 4GB | 4096 | 7.5 | 6
NVIDIA T600 | 4096 | 7.5 | 10
NVIDIA T1000 | 4096 | 7.5 | 14
NVIDIA T1000 8GB | 8192 | 7.5 | 14
NVIDIA RTX A400 | 4094 | 8.6 | 6
NVIDIA RTX A1000 | 8188 | 8.6 | 18
NVIDIA RTX A2000 | 6138 | 8.6 | 26
NVIDIA RTX A2000 12GB | 12282 | 8.6 | 26
NVIDIA RTX A4000 | 16376 | 8.6 | 48
NVIDIA RTX A4500 | 20470 | 8.6 | 56
NVIDIA RTX A5500 | 24564 | 8.6 | 80
NVIDIA RTX 2000 Ada Generation | 16380 | 8.9 | 22
NVIDIA RTX 4000 SFF Ada Generation | 20475 | 8.9 | 48
NVIDIA RTX 4000 Ada Generation | 20475 | 8.9 | 48
NVIDIA RTX 4500 Ada Generation | 24570 | 8.9 | 60
NVIDIA RTX 5000 Ada Generation | 32760 | 8.9 | 100
NVIDIA RTX PRO 6000 Blackwell Workstation Edition | 97887 | 12.0 | 188
Tesla P4 | 7680 | 6.1 | 20
Tesla P40 | 24576 | 6.1 | 30
Tesla P100-PCIE-12GB | 12288 | 6.0 | 56
Tesla P100-PCIE-16GB | 16384 | 6.0 | 56
Tesla P100-SXM2-16GB | 16384 | 6.0 | 56
NVIDIA A2 | 15356 | 8.6 | 10
NVIDIA A10G | 23028 | 8.6 | 80
NVIDIA A16 | 15356 | 8.6 | 10
"""


def _listed(line: str) -> Listed:
    name, sizes, capability, sms = (part.strip() for part in line.split("|"))
    major, _, minor = capability.partition(".")
    return Listed(name, tuple(map(int, sizes.split())), (int(major), int(minor)), int(sms))


LISTED = tuple(_listed(line) for line in _TABLE.strip().splitlines())
