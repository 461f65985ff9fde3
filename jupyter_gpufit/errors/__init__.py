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
│   ├── NoTorch                the kernel's environment has no torch, or an old one
│   ├── NameNotDefined         a name that neither the notebook nor the cell defines
│   ├── CannotTravel           a variable that cannot go to the worker
│   ├── GraphStayed            a gradient that was to flow on into an earlier cell's graph
│   ├── NoRoomToTravel         the variables need more memory than is free
│   ├── CellFailedInTrial      an exception of the cell's own, while it was estimated
│   └── CellFailed             an exception of the cell's own, as its worker showed it
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
│   ├── LeavesAlready          what a job was asked for that is on its way off its device
│   ├── EndedFirst             a checkpoint or release for which the cell did not wait
│   ├── HasEnded               the verb needs a job that runs
│   ├── CannotNow              a button's verb, which the job's state does not allow
│   ├── TooManyActions         more verbs are under way than one server does at a time
│   ├── CannotGoOn             a checkpoint could not be gone on from; it is still there
│   ├── NotYours               files that another user could have written
│   └── VersionDiffers         worker and front are of different versions
├── LabError
│   ├── LabUnsound             the directory that all users share cannot be relied on
│   ├── LabGone                the machine's lab is not there at this moment
│   ├── LabBusy                somebody keeps its mutex
│   ├── ClaimGone              a claim to be taken over that nobody holds any more
│   ├── CannotInit             what stands where the lab is to be is not root's to take
│   ├── CannotUninstall        somebody uses the lab that is to be removed
│   └── NotRoot                only root can make the lab
├── WorkerError
│   ├── WorkerDied             the process ended without saying how
│   ├── CannotSuspend          a process cannot be suspended or restored; the disk has its job
│   ├── Unreachable            the control socket does not answer
│   ├── CannotArrive           a variable that could not be opened in the worker, or a checkpoint here
│   ├── PathTooLong            the control socket's path exceeds the system's limit
│   └── RanksError             a training on several devices cannot go on with all of them
│       ├── RankLost               a process of it died, hangs or failed
│       ├── PartGone               what it had alone went with it
│       ├── RanksDisagree          its processes do not do the same
│       └── HasItsOwnRanks         its cell uses torch.distributed itself
├── CheckpointError
│   ├── NotHere                no place at which the cell can be left; the next one may do
│   ├── CannotSave             objects that no checkpoint can hold; the training goes on
│   ├── NotSaved               a checkpoint could not be written; the training goes on
│   ├── TakenOver              a later worker has the job: an older one publishes nothing
│   ├── CheckpointBroken       a checkpoint that is not what was written
│   └── WouldOverwrite         somebody else has written to a file that the training changes in place
├── DeployError
│   ├── ModelRefused           a file that is no model, or one that cannot be run here
│   ├── NoRuntime              a package that runs models is missing, or two are in each other's way
│   ├── ExportFailed           a module that cannot be made an ONNX model
│   ├── CouldNotDeploy         a model that could not be loaded
│   ├── BadCall                an input of another name, type or shape than the model's
│   ├── QueueFull              more requests than a deployed model keeps waiting
│   ├── TooLate                a request cannot be answered by its deadline
│   ├── CallFailed             the model itself failed, or its process ended, in the middle of a call
│   └── NotServing             a deployed model that does not run now
├── NoEstimate             the process that estimates failed
├── StorageError           a directory of ours cannot be written
└── DeviceError
    ├── NoDevice               neither GPU nor CPU slot here
    ├── NoSuchDevice
    ├── NoSuchCard             a type of GPU that no table of ours has
    ├── DeviceUnreadable       NVML answered with an error
    ├── NeverFits              no device here is large enough, even idle
    ├── HostIsFull             what a plan keeps on the host finds no room there
    ├── NotInParts             what a thread or process of the cell cannot do with tensors that devices share out
    ├── NotUnderPlan           what a plan that keeps tensors on the host cannot do
    ├── NotTheSameAgain        what recomputing would get wrong
    ├── CannotPart             a model that several devices cannot train together
    ├── RanksDiffer            devices that train one cell together came to different values
    └── NotOnASlot             the cell calls for what only a GPU has
"""

from .base import GpufitError, did_you_mean, first_of
from .cells import (
    CannotTravel,
    CellError,
    CellFailed,
    CellFailedInTrial,
    GraphStayed,
    MagicInCell,
    NameNotDefined,
    NoEstimate,
    NoRoomToTravel,
    NoTorch,
    cell_failure,
)
from .checkpoints import CannotSave, CheckpointBroken, CheckpointError, NotHere, NotSaved, TakenOver, WouldOverwrite
from .deploy import (
    BadCall,
    CallFailed,
    CouldNotDeploy,
    DeployError,
    ExportFailed,
    ModelRefused,
    NoRuntime,
    NotServing,
    QueueFull,
    TooLate,
)
from .devices import (
    CannotPart,
    DeviceError,
    DeviceUnreadable,
    HostIsFull,
    NeverFits,
    NoDevice,
    NoSuchCard,
    NoSuchDevice,
    NotInParts,
    NotOnASlot,
    NotTheSameAgain,
    NotUnderPlan,
    RanksDiffer,
)
from .given import BadOption, BadQuantity, BadSetting, CommandError, NoSuchCommand, NotExecutable
from .jobs import (
    CannotGoOn,
    CannotNow,
    EndedFirst,
    HasEnded,
    IsACommand,
    JobBusy,
    JobError,
    LeavesAlready,
    NoJobMeant,
    NoSuchHold,
    NoSuchJob,
    NotNow,
    NotResumable,
    NotYourJob,
    NotYours,
    SeveralMeant,
    StorageError,
    TooManyActions,
    VersionDiffers,
)
from .lab import CannotInit, CannotUninstall, ClaimGone, LabBusy, LabError, LabGone, LabUnsound, NotRoot
from .workers import (
    CannotArrive,
    CannotSuspend,
    HasItsOwnRanks,
    PartGone,
    PathTooLong,
    RankLost,
    RanksDisagree,
    RanksError,
    Unreachable,
    WorkerDied,
    WorkerError,
)

__all__ = [
    "BadCall",
    "BadOption",
    "BadQuantity",
    "BadSetting",
    "CallFailed",
    "CannotArrive",
    "CannotGoOn",
    "CannotInit",
    "CannotNow",
    "CannotPart",
    "CannotSave",
    "CannotSuspend",
    "CannotTravel",
    "CannotUninstall",
    "CellError",
    "CellFailed",
    "CellFailedInTrial",
    "CheckpointBroken",
    "CheckpointError",
    "ClaimGone",
    "CommandError",
    "CouldNotDeploy",
    "DeployError",
    "DeviceError",
    "DeviceUnreadable",
    "EndedFirst",
    "ExportFailed",
    "GpufitError",
    "GraphStayed",
    "HasEnded",
    "HostIsFull",
    "IsACommand",
    "JobBusy",
    "JobError",
    "LabBusy",
    "LabError",
    "LabGone",
    "LabUnsound",
    "LeavesAlready",
    "MagicInCell",
    "ModelRefused",
    "NameNotDefined",
    "NeverFits",
    "NoDevice",
    "NoEstimate",
    "NoJobMeant",
    "NoRoomToTravel",
    "NoRuntime",
    "NoSuchCard",
    "NoSuchCommand",
    "NoSuchDevice",
    "NoSuchHold",
    "NoSuchJob",
    "NoTorch",
    "NotExecutable",
    "NotHere",
    "NotNow",
    "NotOnASlot",
    "NotResumable",
    "NotRoot",
    "NotSaved",
    "NotServing",
    "NotInParts",
    "NotTheSameAgain",
    "NotUnderPlan",
    "NotYourJob",
    "NotYours",
    "PartGone",
    "PathTooLong",
    "RankLost",
    "RanksDisagree",
    "RanksError",
    "HasItsOwnRanks",
    "QueueFull",
    "RanksDiffer",
    "SeveralMeant",
    "StorageError",
    "TakenOver",
    "TooLate",
    "TooManyActions",
    "Unreachable",
    "VersionDiffers",
    "WorkerDied",
    "WorkerError",
    "WouldOverwrite",
    "cell_failure",
    "did_you_mean",
    "first_of",
]
