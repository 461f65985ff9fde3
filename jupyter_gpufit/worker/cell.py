"""The cell in the worker's main thread: its variables are opened, it runs, and what it made is packed."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from ..errors import CannotGoOn, GpufitError, RanksError
from ..estimate.asking import for_job, lesson
from ..fit.ladder import fitted
from ..fit.memory import words_of
from ..fit.sharing import PARAMETERS
from ..graph import made_later, receive, what_stayed
from ..graph.kinds import caches, parents
from ..jobs.events import Failure
from ..jobs.job import Job
from ..lab import Granted
from ..snapshot.kinds.loaders import remembered
from ..surroundings import generators, given, modes
from ..surroundings import travel as surroundings
from ..system.trust import check_trusted
from ..train import Finished, Outgrown
from .finals import Finals
from .growth import Growth
from .keeper import Keeper
from .losses import Losses
from .main_thread import MainThread
from .on_device import on_device
from .own_threads import wait_for_threads
from .process import have_descriptors
from .ranks.ranks import RankOfMany, Ranks
from .shell import cell_with_magic_line
from .training import Training

NOTHING_BACK = (
    "A part of each large parameter is gone with another device's process: the notebook's variables are as they were"
    " before."
)


class CellInWorker:
    """Runs once in an image of the worker."""

    def __init__(self, training: Training, main: MainThread, keeper: Keeper, losses: Losses, finals: Finals) -> None:
        """`losses`: what to do without one of several ranks; `finals`: its last numbers."""
        self.training = training
        self.main = main
        self.keeper = keeper
        self.losses = losses
        self.finals = finals
        self.ranks: Ranks | None = None
        parents.watch()

    def text(self, job: Job) -> str:
        """What of it is Python's."""
        text: str = self.training.shell.transform_cell(  # type: ignore[no-untyped-call]
            cell_with_magic_line(job.magic_line, job.source)
        )
        return text

    def receive(self) -> None:
        """Open the variables that the kernel sent."""
        training = self.training
        check_trusted(training.paths.graph)
        training.arrival = receive(training.paths.graph.read_bytes(), training.memory, training.namespace)
        training.modes = modes.arrived(training.namespace)
        training.came = surroundings.arrived(training.namespace)
        made = made_later.make_all()
        generators.arrived(training.namespace)  # last: modules were imported, and some draw numbers then
        for remark in (*training.came.remarks, *made):
            training.note(remark)
        header = training.arrival.opened.header
        for filename, (lines, _) in header.get("sources", {}).items():
            training.program.learn(filename, "".join(lines))
        for name, (filename, text) in header.get("run", {}).items():
            training.program.ran.learn(name, filename, text)

    def run(self, job: Job, granted: Granted, growth: Growth, estimated: for_job.Found) -> Finished | Outgrown:
        training = self.training
        mine = os.getpid()
        training.pace = for_job.pace_of(estimated, granted.devices[0], training.fit.plan)
        ranks = self.ranks = Ranks(training, granted, self.losses.goes_on)
        try:
            ranks.begin(partial(self._run_copy, job))
            self.main.before_interrupt = ranks.be_alone
            return self._run(job, granted, growth, estimated, ranks, mine)
        finally:
            if os.getpid() == mine:
                ranks.end()

    def _run_copy(self, job: Job, own: Granted, rank: RankOfMany) -> None:
        """The same, in a rank beside the first."""
        training = self.training
        with on_device(own) as meter, training.steps.counting(), remembered(), fitted(training.fit.plan):
            if training.handover.resumes:
                training.arrival = self.keeper.restore(copy=True)
                made_later.make_all()
            elif training.arrival is None:
                self.receive()
            rank.is_ready()
            with rank.around(meter):
                left = self._run_cell(job)
                rank.stays(left)
            if left is not None:
                raise left

    def _run(
        self, job: Job, granted: Granted, growth: Growth, estimated: for_job.Found, ranks: Ranks, mine: int
    ) -> Finished | Outgrown:
        training = self.training
        training.shell.goes_on = growth.takes
        with (
            on_device(ranks.own()) as meter,
            self._with_known_speed(granted),
            training.steps.counting(),
            remembered(),
            # Around what arrives and what goes back, too: all of it need not fit at once.
            fitted(training.fit.plan, self.main.ours_if_here),
        ):
            training.meter = ranks.meter(meter)
            with training.output.aside():
                key = self._open(job)
            self._say_what_a_plan_did()
            growth.begin()
            with ranks.around(meter):
                left = self._run_cell(job)
            if os.getpid() != mine:
                os._exit(0)  # a child that the cell forked and did not end: it must not act as the worker
            training.last = self.finals.at_the_end(self.text(job), training.namespace)
            training.program.leave()
            have_descriptors()
            if ranks.lost is not None and growth.outcome is None:
                left = self._lost(ranks.lost, left)
            if growth.outcome is None:
                if ranks.lost is None or training.fit.split < PARAMETERS:
                    self._pack_result(job, left)
                else:  # of each large parameter a part is gone
                    training.note(NOTHING_BACK)
                training.ended = _finished(left)
            fit = training.fit if training.handover.fit else None  # none: its user said what it claims
            if ranks.size > 1:
                estimated, fit = lesson.shared_out(estimated, training.fit, ranks.size)
            course = lesson.RunCourse(training.steps.made, training.steps.seconds, ranks.size)
            lesson.learn_from(job, key, estimated, granted, left, meter.took, training.settings, fit, course)
        training.output.flush()
        return growth.outcome or _finished(left)

    def _with_known_speed(self, granted: Granted) -> AbstractContextManager[None]:
        """Under a plan, the first time on such a device: it is measured, for all plans to come."""
        device = granted.devices[0]
        if self.training.fit.plan.parts and device.kind != "slot":  # which was measured for its estimate
            for_job.measured(self.training.settings, device)
        return nullcontext()

    def _lost(self, lost: RanksError, left: BaseException | None) -> BaseException:
        """As what the cell left: one that goes on after any error has trained nothing since then, and is not done."""
        if left is not None and not isinstance(left, SystemExit):
            return left
        self.training.output.put(Failure(type(lost).__name__, str(lost), (f"{type(lost).__name__}: {lost}",)))
        return lost

    def _say_what_a_plan_did(self) -> None:
        """To an error that there would not be without it."""
        shell, fit = self.training.shell, self.training.fit
        before = shell.remark
        if fit.said:
            shell.remark = lambda error: lesson.remark_on_plan(error, fit) or before(error)

    def _open(self, job: Job) -> str:
        """Fill the namespace; the key under which is learned what the cell took, from its start only."""
        training = self.training
        if training.handover.resumes:
            self._restore(job)
            shutil.rmtree(training.paths.result, ignore_errors=True)  # of an earlier end; a failed restore leaves it
            return ""
        if training.arrival is None:
            self.receive()
        assert training.arrival is not None
        given = {name: training.namespace.get(name) for name in training.arrival.opened.header["names"]}
        return lesson.key_of(self.text(job), given)

    def _restore(self, job: Job) -> None:
        try:
            self.training.arrival = self.keeper.restore()
            for remark in made_later.make_all():
                self.training.note(remark)
            self.training.shell.comms.announce_all()
        except GpufitError as error:
            raise CannotGoOn(job.name, str(error).rstrip(".")) from error
        except Exception as error:
            self.training.defect(error)
            raise CannotGoOn(job.name, f"{type(error).__name__}: {error}") from error

    def _run_cell(self, job: Job) -> BaseException | None:
        before = set(threading.enumerate())
        try:
            with self.main.user_code():
                source = cell_with_magic_line(job.magic_line, job.source)
                left = self.training.shell.run(source, self.training.handover.cell_number)
                wait_for_threads(before, self.training.note)
                return left
        except KeyboardInterrupt as interrupt:  # in the few instructions around the cell, or while its threads end
            return interrupt

    def _pack_result(self, job: Job, left: BaseException | None) -> None:
        training = self.training
        assert training.arrival is not None
        here, value = training.namespace, training.shell.displayhook.value
        last = {} if value is None else {given.out(training.handover.cell_number): value}
        known = {id(one) for one in (*training.arrival.opened.objects, *here.values())} if left is not None else ()
        with (
            given.travelling(here, last | given.error(left, known)),
            generators.travelling(here),
            modes.travelling(here, training.modes),
            surroundings.back(here, training.came, self.text(job)) as around,
        ):
            training.reply = training.arrival.reply(training.is_ours, around, given.UNASKED)
        for name in caches.grown(training.arrival.opened.objects):
            training.note(
                f"What {name}() keeps by its lru_cache of this cell is computed again in the notebook.", once=True
            )
        for words in (*what_stayed(training.reply.left_behind), *around.left):
            training.note(words)


def _finished(left: BaseException | None) -> Finished:
    match left:
        case None:
            return Finished("done")
        case SystemExit(code=None | 0):
            return Finished("done", "the cell called sys.exit()")
        case KeyboardInterrupt():
            return Finished("stopped", "interrupted")
        case _:
            return Finished("failed", words_of(left))
