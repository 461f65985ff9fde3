"""Tickets and claims: who may use which device, decided by the kernel's locks and owners and nothing else.

Whom that trusts, and how far: docs/trust.md.

record   what a ticket and a claim say            order    whose turn comes when (pure)
owner    whose file is it, and is it still held   turn     may I start now (pure)
published   our own files: publish, drop, sweep    reasons  why not, in words
ledger   everybody's, read without trust          entry    one file: its name, what it says
directory   where it is, and can it be trusted     watch    sleeping until something changes
mutex    one claims at a time                     queue    all of it in time: `claim`
policy, usage   what fairness rests on (and policy_file)   grant    what one has when one's turn has come
quanta   whose turn is over (pure)                standing how a claim stands, by its holder's own word
wishes   who would like what another holds        holder   what it does while it holds
processes   who holds it, before a signal is sent     locks    what is locked on a file, and how that is seen
room     who fills the lab                        digest   a record of use, made shorter
again    a lab that was emptied while jobs run
resize   holding less of a device than before, or more again
debts    what users owe for turns that they let go, from one job to the next
stalled  who could start and does not             view     the whole of it, for a status to show
"""

from .directory import Lab, open_lab
from .grant import Granted, Held, adopt
from .queue import claim, claim_now
from .reasons import Waiting
from .record import Claim, Request, Ticket
from .resize import resize
from .view import LabView, view_lab

__all__ = [
    "Claim",
    "Granted",
    "Held",
    "Lab",
    "LabView",
    "Request",
    "Ticket",
    "Waiting",
    "adopt",
    "claim",
    "claim_now",
    "open_lab",
    "resize",
    "view_lab",
]
