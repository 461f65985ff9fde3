"""What JupyterHub is given: its culler's question answered, and the service with the lab's page and figures.

culler    whether a server may be stopped for being idle
"""
