"""The notebook's side of a job: start it, follow it, show what it says. What travels there and back: variables.py."""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
from IPython.core.interactiveshell import InteractiveShell

from ..actions import deploy, resume, run_jobs, table
from ..actions.deeds import ANSWERS, WISHES
from ..actions.places import check_place
from ..actions.request import request_for
from ..actions.status import StatusReader
from ..devices.here import read_devices_async
from ..engine import Spare, Started
from ..errors import BadOption, GpufitError, VersionDiffers, first_of
from ..jobs.events import Event, Failure, Note, StateChange
from ..jobs.follow import Interrupts, Leaving, follow
from ..jobs.forking import KernelModules
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..jobs.record import read_record
from ..jobs.store import chosen_job, create_job_files
from ..lab.place import refuse_impossible
from ..settings import Settings
from ..surroundings.given import LeftToShell
from ..surroundings.travel import watch
from ..system.background import aside
from ..system.once import is_news
from ..system.version import version
from . import deployed
from .cell import check_torch, read_cell
from .cuda import KernelCuda
from .edited import Imported
from .new_job import new_job
from .show import NotebookShow, WidgetShow, WidgetsOfJob, cell_failed, wants_card, with_card
from .variables import AllVariables, pack, packages_of, packed_sizes, write_graph

if TYPE_CHECKING:
    from ..calls.client import DeployedModel, DeployedModels
    from .card import JobCard  # kernels start faster without


OFTEN = 0.3  # seconds between two looks at what a cell imports


class Notebook:
    """One kernel: the jobs that it started, and what of theirs is here."""

    def __init__(self, shell: InteractiveShell, settings: Settings) -> None:
        self.shell = shell
        self.settings = settings
        self.spare = Spare(settings.spare_worker)
        self._pid = os.getpid()
        self._looked = 0.0  # when it was last asked to import what a cell does
        self.imported = Imported()
        self.cuda = KernelCuda(shell, settings, self._say)
        self._variables = AllVariables(shell.user_ns)
        self._started: dict[str, Started] = {}
        self._status = StatusReader()
        self._is_news = partial(is_news, settings)
        self._widgets: dict[str, WidgetsOfJob] = {}  # by job

    def after_cell(self) -> None:
        self._variables.after_cell()
        self.imported.look()
        self.spare.offer(self._imported_here())

    def after_import(self) -> None:
        """The outermost import of a cell is done, and others may follow."""
        if time.monotonic() - self._looked > OFTEN and os.getpid() == self._pid:  # no worker of a cell's DataLoader
            self.spare.offer_meanwhile(self._imported_here())
            self._looked = time.monotonic()

    def _imported_here(self) -> KernelModules:
        return KernelModules(tuple(watch.installed()), self.cuda.capability(), tuple(watch.variables))

    async def do(
        self, options: argparse.Namespace, line: str, cell: str | None, interrupts: Interrupts, leaving: Leaving
    ) -> object:
        """One command; what it gives back, which a notebook may assign."""
        check_place(options.verb, "line" if cell is None else "cell")
        run_jobs.check(options, self.settings)
        self._variables.let_go()  # a terminal may have resumed or cleaned what they were kept for
        match options.verb:
            case "train":
                assert cell is not None
                await self._train(options, line, cell, interrupts, leaving)
            case "estimate":
                assert cell is not None
                await self._estimate(options, line, cell, interrupts)
            case "deploy":
                return await self._deploy(options, interrupts)
            case "runs":
                return await self._runs(options)
            case "attach":
                job, paths = chosen_job(self.settings, options.job)
                if job.kind == "model":
                    return deployed.handle(self.settings, job, paths)
                await self._attach(job, paths, interrupts, leaving, again=options.again, widget=options.widget)
            case "resume" if resume.chosen(self.settings, options.job)[0].kind == "training":
                await self._resume(options, interrupts, leaving)
            case "kernel":
                self._say(self.cuda.words())
            case verb if verb in ANSWERS:
                self._say(await aside(lambda: ANSWERS[verb](options, self.settings, self._status)))
                self._variables.let_go()  # of what was cleaned
            case verb:
                await self._say_all(WISHES[verb](options, self.settings), interrupts)
        return None

    async def _runs(self, options: argparse.Namespace) -> object:
        """A table of all runs, or of one run's numbers."""
        from .runs import numbers, runs  # and what follows: kernels start faster without

        if options.job:
            _, paths = chosen_job(self.settings, options.job)
            return await aside(lambda: numbers(paths))
        return await aside(lambda: runs(self._status.jobs(self.settings), time.time()))

    # Train ----------------------------------------------------------------------------------------------------------

    async def _train(
        self, options: argparse.Namespace, line: str, cell: str, interrupts: Interrupts, leaving: Leaving
    ) -> None:
        names = read_cell(self.shell, cell)
        if options.dry_run:
            sizes = packed_sizes(self.shell, names)
            self._say(table.plan(self._status.read(self.settings), options.gpu, options.memory, sizes, options.gpus))
            return
        check_torch()
        job = new_job(self.shell, self.settings, options, line, cell)
        # Here already, so that what can never run costs neither a worker nor a copy of the variables.
        refuse_impossible(request_for(job, options.memory), await read_devices_async(self.settings))
        # First: it imports what is needed while the variables are packed.
        waiting = self.spare.take(os.environ, needs=packages_of(self.shell, names))
        try:
            shipment = pack(self.shell, names)
            paths = create_job_files(self.settings, job)
            write_graph(paths, shipment)
            started = waiting.give(job, paths, shipment.memory.fds, self.shell.execution_count)
        except BaseException:
            waiting.dismiss()
            raise
        self._started[job.id] = started
        for remark in (*shipment.remarks, *self.imported.edited(shipment.graph, names.imports)):
            self._say(remark)
        self._variables.of(job, paths).shipped(shipment)
        self._widgets_of(job, paths).send(shipment.widgets())
        await self._follow_or_detach(options, job, paths, interrupts, leaving)

    async def _resume(self, options: argparse.Namespace, interrupts: Interrupts, leaving: Leaving) -> None:
        """Go on with a job; where this notebook still has its objects, they are those that are trained."""
        asked = (options.gpu, options.memory, options.gpus, options.back)
        found = await resume.prepare(self.settings, options.job, *asked)
        job, paths = found.job, found.paths
        woken = await resume.wake(self.settings, found)
        if not woken.goes_on:
            waiting = self.spare.take(found.env, found.start.python, found.start.package)
            try:
                self._started[job.id] = found.give_to(waiting)
            except BaseException:
                waiting.dismiss()
                raise
        self._variables.of(job, paths).resumed()
        self._say(found.words(time.time()))
        if woken.words:
            self._say(woken.words)
        await self._follow_or_detach(options, job, paths, interrupts, leaving, after=found.seq)

    async def _follow_or_detach(
        self,
        options: argparse.Namespace,
        job: Job,
        paths: JobPaths,
        interrupts: Interrupts,
        leaving: Leaving,
        *,
        after: int = 0,
    ) -> None:
        card = self._card(job, paths, options.widget, apart=options.detach)
        if options.detach:
            self._follow_apart(job, paths, after, card)
        else:
            await self._follow(job, paths, interrupts, leaving, after=after, card=card)

    # Deploy ---------------------------------------------------------------------------------------------------------

    async def _deploy(self, options: argparse.Namespace, interrupts: Interrupts) -> DeployedModel | DeployedModels:
        """Start it and wait until it answers; an interrupt ends the waiting, and leaves it in the queue."""
        async with deployed.origins_of(self.shell, self.settings, options, self._say) as origins:
            prepared = await deploy.prepare(self.settings, options, origins)
        deploy.begin(prepared)
        self._say(prepared.words)
        patience = deploy.IN_THE_QUEUE if options.detach else float("inf")
        await self._say_all(deploy.how_it_goes(prepared.job, prepared.paths, 0, patience), interrupts)
        return deployed.handle(self.settings, prepared.job, prepared.paths)

    # Estimate -------------------------------------------------------------------------------------------------------

    async def _estimate(self, options: argparse.Namespace, line: str, cell: str, interrupts: Interrupts) -> None:
        from ..estimate.asking import script, session, shipped  # kernels that only train start faster without
        from ..estimate.asking.told import Told
        from ..estimate.showing import show

        if options.script:
            raise BadOption("A script is estimated in a terminal: gpufit estimate train.py")
        check_torch()
        wish = script.wish_of(options.on, options.steps, options.sweep, options.max_batch, options.gpus)
        source = f"# %%gpufit {line}\n{self.shell.transform_cell(cell)}"
        all_told: list[Told] = []

        def told(one: Told) -> None:
            all_told.append(one)
            for bundle in [] if options.json else show.notebook(one):
                self.shell.display_pub.publish(bundle)

        now = self.shell.user_ns.get(wish.name)
        was = {wish.name: now} if type(now) is int else {}
        with shipped.shipped(source, pack(self.shell, read_cell(self.shell, cell)), was) as (program, descriptors):
            async with _unless(interrupts, "the estimate was interrupted"):
                settings = replace(self.settings, fit=options.fit or self.settings.fit)
                await session.estimate(program, wish, settings, told, descriptors)
        if options.json:
            self._say(show.json_of(all_told))

    # Follow ---------------------------------------------------------------------------------------------------------

    async def _attach(
        self,
        job: Job,
        paths: JobPaths,
        interrupts: Interrupts,
        leaving: Leaving,
        *,
        again: bool,
        widget: bool | None,
    ) -> None:
        record = read_record(paths)
        if record.version and record.version != version():
            raise VersionDiffers(job.name, record.version, version())
        runs = record.worker is not None and record.worker.alive()
        card = self._card(job, paths, widget, apart=runs)
        await self._follow(job, paths, interrupts, leaving, again=again, card=card)

    async def _follow(
        self,
        job: Job,
        paths: JobPaths,
        interrupts: Interrupts,
        leaving: Leaving,
        *,
        again: bool = False,
        after: int = 0,
        card: JobCard | None = None,
    ) -> None:
        widgets = self._widgets_of(job, paths)
        show = NotebookShow(self.shell, job, paths, self._is_news, widgets, has_card=card is not None)
        for view in widgets.catch_up(after):
            show(view)
        variables = self._variables.of(job, paths)
        variables.expect(show)
        try:
            end = await follow(
                job,
                paths,
                with_card(show, card),
                after=after,
                interrupts=interrupts,
                leaving=leaving,
                exit_code=self._exit_code(job),
                take=variables.take,
            )
            if end.state != "released":
                variables.look_on_disk(again=again)
        finally:
            variables.end()
            self._variables.let_go()
            self._reap(job)
        if end.state == "done" and not variables.here:
            show(Note(f"The variables of {job.name} are in the notebook that followed it to its end, not in this one."))
        record = read_record(paths)
        if end.state != "released" and record.resumable and record.checkpoint is not None:
            saved = record.checkpoint.words
            show(Note(f"{job.name} was saved at {saved}; to go on from there: `%gpufit resume {job.name}`"))
        came, variables.given = variables.given, LeftToShell()  # which nobody is to keep
        for value in came.values:
            self.shell.displayhook.update_user_ns(value)
        if show.failure is not None:
            raise cell_failed(show.failure, came.error)
        _raise_if_unexplained(job, end)

    def _widgets_of(self, job: Job, paths: JobPaths) -> WidgetsOfJob:
        return self._widgets.setdefault(job.id, WidgetsOfJob(job, paths))

    def _reap(self, job: Job) -> None:
        started = self._started.pop(job.id, None)
        if started is not None:
            threading.Thread(target=started.reap, name=f"gpufit-reap-{job.name}", daemon=True).start()

    def _exit_code(self, job: Job) -> Callable[[], int | None]:
        started = self._started.get(job.id)
        return (lambda: None) if started is None else started.exit_code

    def _card(self, job: Job, paths: JobPaths, option: bool | None, *, apart: bool) -> JobCard | None:
        """A card under the cell, where one is wanted. Made now, never at load: a kernel's restart leaves it a ruin."""
        if not wants_card(self.settings.widget, option, apart=apart) or not hasattr(self.shell, "kernel"):
            return None
        from .card import JobCard

        card = JobCard(job, paths, self.settings)
        card.show()
        return card

    def _follow_apart(self, job: Job, paths: JobPaths, after: int = 0, card: JobCard | None = None) -> None:
        """Show a detached job's output in a widget, from a thread, also after a release and whoever resumes it.

        Its variables come with `attach`.
        """
        from ipywidgets import Output

        show = WidgetShow(Output(), job, self._is_news, self._widgets_of(job, paths), has_card=card is not None)
        attach = f"`%gpufit attach {job.name}`"
        show(Note(f"{job.name} goes on by itself. Its output, and its variables at the end: {attach}"))
        for view in self._widgets_of(job, paths).catch_up(after):
            show(view)
        shown = with_card(show, card)

        def exit_code() -> int | None:
            return self._exit_code(job)()  # of the worker that is there now, if this kernel started it

        def tell(event: Event, when: float | None = None) -> None:
            shown(event, when)
            if isinstance(event, StateChange) and event.state == "released":
                self._reap(job)

        def run() -> None:
            try:
                anyio.run(lambda: follow(job, paths, tell, after=after, exit_code=exit_code, on=True))
            except* GpufitError as group:
                show(Note(str(first_of(group))))
            self._reap(job)

        threading.Thread(target=run, name=f"gpufit-{job.name}", daemon=True).start()

    async def _say_all(self, words: AsyncIterator[str], interrupts: Interrupts) -> None:
        """Say what comes of a wish; an interrupt ends the looking on, and leaves the wish."""
        async with _unless(interrupts, "only the watching has ended; what was asked for goes on"):
            async for word in words:
                self._say(word)

    def _say(self, text: str) -> None:
        self.shell.display_pub.publish({"text/plain": text})


@asynccontextmanager
async def _unless(interrupts: Interrupts, words: str) -> AsyncIterator[None]:
    """Give up what is inside when Ctrl-C is pressed."""
    pressed = False

    async def watch(scope: anyio.CancelScope) -> None:
        nonlocal pressed
        await interrupts.next()
        pressed = True
        scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch, group.cancel_scope)
        yield
        group.cancel_scope.cancel()
    if pressed:
        raise cell_failed(Failure("KeyboardInterrupt", "", (f"KeyboardInterrupt: {words}",)))


def _raise_if_unexplained(job: Job, end: StateChange) -> None:
    """A job that did not do its work must not look like a cell that did: the cells that wait behind it would go on."""
    if end.state == "released":
        stay = "The cells behind this one are not run: they would see the variables of before it."
        words = f"{job.name} is released. {stay} To go on: %gpufit resume {job.name}"
        raise cell_failed(Failure("Released", words, (f"Released: {words}",)))
    if end.state != "done":
        ename = "KeyboardInterrupt" if end.state == "stopped" else "JobFailed"
        raise cell_failed(Failure(ename, end.reason, (f"{job.name} {end.state}: {end.reason}",)))
