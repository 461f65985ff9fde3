"""Every error a user can meet. Each carries its data and builds its own sentence, which names the next step.

GpufitError
├── BadQuantity            "12 parsecs" where an amount was wanted
├── BadSetting             a setting that is unknown or cannot be read
├── BadOption              an option of a command that makes no sense
├── CommandError           `gpufit run` cannot start the command
│   ├── NoSuchCommand
│   └── NotExecutable
├── CellError              the cell cannot run as it stands
│   ├── MagicInCell            %gpufit inside of a cell that runs in a worker
│   ├── NameNotDefined         a name that neither the notebook nor the cell defines
│   ├── CannotTravel           a variable that cannot go to the worker
│   ├── NoRoomToTravel         the variables need more memory than is free
│   └── CellFailedInTrial      an exception of the cell's own, while it was estimated
├── JobError
│   ├── NoSuchJob
│   │   ├── NoJobMeant         none was named, and there is none that could be meant
│   │   └── IsACommand         of `gpufit run`, which can only be ended
│   ├── NotYourJob             another user's
│   ├── NoSuchHold             nobody holds anything under this name, or waits
│   ├── SeveralMeant           a name that several claims have
│   ├── JobBusy                the verb needs a job that has ended
│   ├── NotResumable           a job that runs, has ended well, or left no checkpoint
│   ├── NotNow                 what a running job was asked for, and refused; it goes on
│   ├── HasEnded               the verb needs a job that runs
│   ├── CannotGoOn             a checkpoint could not be gone on from; it is still there
│   ├── NotYours               files that another user could have written
│   └── VersionDiffers         worker and front are of different versions
├── WorkerError
│   ├── WorkerDied             the process ended without saying how
│   ├── Unreachable            the control socket does not answer
│   ├── CannotArrive           a variable that could not be opened at the other end
│   └── PathTooLong            the control socket's path exceeds the system's limit
├── CheckpointError
│   ├── NotHere                no place at which the cell can be left; the next one may do
│   ├── CannotSave             objects that no checkpoint can hold; the training goes on
│   ├── NotSaved               a checkpoint could not be written; the training goes on
│   ├── TakenOver              a later worker has the job: an older one publishes nothing
│   ├── CheckpointBroken       a checkpoint that is not what was written
│   └── WouldOverwrite         somebody else has written to a file that the training changes in place
├── NoEstimate             the process that estimates failed
├── StorageError           a directory of ours cannot be written
├── LabUnsound             lab/directory.py: the directory that all users share cannot be relied on
├── LabBusy                lab/mutex.py: somebody keeps its mutex
├── ClaimGone              lab/grant.py: a claim to be taken over that nobody holds any more
├── CannotSuspend          suspend/driver.py: a process cannot be suspended or restored; the disk has its job
├── CellFailed             show.py: the cell's own exception, as its worker showed it
└── DeviceError
    ├── NoDevice               neither GPU nor CPU slot here
    ├── NoSuchDevice
    ├── NoSuchCard             a type of GPU that no table of ours has
    ├── DeviceUnreadable       NVML answered with an error
    ├── NeverFits              no device here is large enough, even idle
    └── NotOnASlot             the cell calls for what only a GPU has
"""

from .base import GpufitError, did_you_mean, first_of
from .cells import CannotTravel, CellError, CellFailedInTrial, MagicInCell, NameNotDefined, NoEstimate, NoRoomToTravel
from .checkpoints import CannotSave, CheckpointBroken, CheckpointError, NotHere, NotSaved, TakenOver, WouldOverwrite
from .devices import DeviceError, DeviceUnreadable, NeverFits, NoDevice, NoSuchCard, NoSuchDevice, NotOnASlot
from .given import BadOption, BadQuantity, BadSetting, CommandError, NoSuchCommand, NotExecutable
from .jobs import (
    CannotGoOn,
    HasEnded,
    IsACommand,
    JobBusy,
    JobError,
    NoJobMeant,
    NoSuchHold,
    NoSuchJob,
    NotNow,
    NotResumable,
    NotYourJob,
    NotYours,
    SeveralMeant,
    StorageError,
    VersionDiffers,
)
from .workers import CannotArrive, PathTooLong, Unreachable, WorkerDied, WorkerError

__all__ = [
    "BadOption",
    "BadQuantity",
    "BadSetting",
    "CannotArrive",
    "CannotGoOn",
    "CannotSave",
    "CannotTravel",
    "CellError",
    "CellFailedInTrial",
    "CheckpointBroken",
    "CheckpointError",
    "CommandError",
    "DeviceError",
    "DeviceUnreadable",
    "GpufitError",
    "HasEnded",
    "IsACommand",
    "JobBusy",
    "JobError",
    "MagicInCell",
    "NameNotDefined",
    "NeverFits",
    "NoDevice",
    "NoEstimate",
    "NoJobMeant",
    "NoRoomToTravel",
    "NoSuchCard",
    "NoSuchCommand",
    "NoSuchDevice",
    "NoSuchHold",
    "NoSuchJob",
    "NotExecutable",
    "NotHere",
    "NotNow",
    "NotOnASlot",
    "NotResumable",
    "NotSaved",
    "NotYourJob",
    "NotYours",
    "PathTooLong",
    "SeveralMeant",
    "StorageError",
    "TakenOver",
    "Unreachable",
    "VersionDiffers",
    "WorkerDied",
    "WorkerError",
    "WouldOverwrite",
    "did_you_mean",
    "first_of",
]
