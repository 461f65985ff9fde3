"""One cell on several devices, and it means the same as on one large device: START HERE with calls.py.

Each rank runs the same cell with the same variables and the same random numbers, and reads the same batches.
"""
