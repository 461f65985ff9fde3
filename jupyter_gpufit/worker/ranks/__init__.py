"""One cell on several devices: a process for each, and what they are to each other. START HERE with ranks.py.

    links.py     how they meet: socket pairs, by which each knows that another one has ended
    shared.py    sums and gatherings, through memory that they share
    forking.py   the thread that forks them, and what is known of each
    replica.py   what makes a silent rank of a forked worker, and how it ends
    ranks.py     the first rank's part: it forks the others, judges them, and ends them
    files.py     files that every rank writes, and only the first one's stay

What a rank computes for the others is not here: fit/several/.
"""
