"""One object graph that crosses between processes: the objects in a pickle stream, the bytes of tensors beside it.

    ship ─► receive ─► (the cell runs) ─► Arrival.reply ─► Shipment.bring_back

The reply is a continuation of the shipment's own stream, so both sides know which of their objects are the same, and
the kernel's very objects get the results. `bring_into` opens a saved reply in a kernel that never had the objects.

    stream     the pickler and the unpickler, and what makes two streams one
    spans      which bytes an object stands on           opening   from there to bytes on the other side
    memory     bytes that two processes share
    kinds      how the objects of each type travel: containers, instances, functions, tensors, arrays, frames, odd
    refusals   what cannot travel, and what to do        paths     where in a variable it is
    sources    the text of the cells that defined it     values    what of a reply can be made here
    ship       the kernel's side                         arrival   the worker's side
    reply      what comes back                           back      and how it is put in place
    midway     generators, made when they are asked for an item
    ids        numbers that are an object's id()         undo      and taken back
"""

from .memory import GraphMemory
from .travel.arrival import Arrival, receive
from .travel.back import Returned, bring_into
from .travel.reply import LeftBehind, Reply, what_stayed
from .travel.ship import Shipment, ship
from .unavailable import Unavailable
from .undo import Undo

__all__ = [
    "Arrival",
    "LeftBehind",
    "GraphMemory",
    "Reply",
    "Returned",
    "Shipment",
    "Unavailable",
    "Undo",
    "bring_into",
    "receive",
    "ship",
    "what_stayed",
]
