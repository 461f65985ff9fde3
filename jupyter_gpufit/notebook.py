"""The notebook's side of a job: ship the cell and its variables, follow it, and put its variables back."""

from __future__ import annotations

import argparse
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import anyio
from IPython.core.interactiveshell import InteractiveShell

from . import __version__, resume, table, verbs
from .asking import asked, running_job
from .cell import modes, rng
from .cell.names import CellNames, check_names, names_of, names_of_code
from .clean import clean
from .commands import CELL_VERBS
from .devices import read_devices_async
from .errors import BadOption, CannotTravel, GpufitError, NameNotDefined, VersionDiffers
from .findings import as_json, as_text
from .graph import Memory, Reply, Returned, Shipment, bring_into, ship
from .job import Job, JobPaths, Options, all_jobs, chosen_job, create_job_files, find_job, new_job_id
from .place import refuse_impossible
from .release import release
from .settings import Settings
from .show import NotebookShow, WidgetShow, cell_failed, wants_card, with_card
from .status import StatusReader
from .train import request_for
from .worker.follow import Interrupts, Leaving, follow
from .worker.messages import Failure, Note, StateChange
from .worker.parent import Spare, Started
from .worker.record import read_record
from .worker.result import from_descriptors, load
from .worker.stop import stop

if TYPE_CHECKING:
    from .widget import JobCard  # kernels start faster without


class Notebook:
    """One kernel: the jobs it started, and what it shipped for each, so that variables return to the very objects."""

    def __init__(self, shell: InteractiveShell, settings: Settings) -> None:
        self.shell = shell
        self.settings = settings
        self.spare = Spare()
        self._shipments: dict[str, Shipment] = {}
        self._started: dict[str, Started] = {}
        self._brought: set[str] = set()  # jobs whose variables are here
        self._aside: dict[str, dict[str, Any]] = {}  # by job: trained objects whose names have another value here
        self._status = StatusReader()
        self._said: set[str] = set()

    async def do(
        self, options: argparse.Namespace, line: str, cell: str | None, interrupts: Interrupts, leaving: Leaving
    ) -> None:
        """One command."""
        if (options.verb in CELL_VERBS) != (cell is not None):
            wanted = "on top of a cell: %%gpufit" if cell is None else "on a line of its own: %gpufit"
            raise BadOption(f"{options.verb} goes {wanted} {options.verb}")
        match options.verb:
            case "train":
                assert cell is not None
                await self._train(options, line, cell, interrupts, leaving)
            case "estimate":
                assert cell is not None
                await self._estimate(options, line, cell, interrupts)
            case "attach":
                job, paths = chosen_job(self.settings, options.job)
                await self._attach(job, paths, interrupts, leaving, again=options.again, widget=options.widget)
            case "stop":
                job, paths = find_job(self.settings, options.job)
                async for word in stop(job, paths, self.settings.stop_patience):
                    self._say(word)
            case "jobs" | "status" | "queue" | "history":
                if options.verb == "status" and options.watch:
                    raise BadOption("--watch needs a terminal: gpufit status --watch")
                self._say(await anyio.to_thread.run_sync(verbs.answer, options, self.settings, self._status))
            case "checkpoint" if options.show:
                self._say(verbs.show_checkpoint(self.settings, options.job, in_json=options.json))
            case "checkpoint" | "move":
                job, paths = running_job(self.settings, options.job)
                to = options.to if options.verb == "move" else ""
                await self._say_all(asked(job, paths, options.verb, to), interrupts)
            case "release":
                await self._say_all(release(self.settings, options.job, insist=options.insist), interrupts)
            case "resume":
                await self._resume(options, interrupts, leaving)
            case "run":
                raise BadOption("run goes into a terminal: gpufit run -- python train.py")
            case "clean":
                for word in clean(self.settings, options.jobs):
                    self._say(word)
            case "doctor":
                from .doctor import examine

                found = await anyio.to_thread.run_sync(examine, options.wait)
                self._say(as_json(found) if options.json else as_text(found))
            case "lab":
                raise BadOption("lab goes in a terminal: gpufit lab check")

    # Train ----------------------------------------------------------------------------------------------------------

    async def _train(
        self, options: argparse.Namespace, line: str, cell: str, interrupts: Interrupts, leaving: Leaving
    ) -> None:
        names = self._read_cell(cell)
        if options.dry_run:
            self._say(self._plan(options, names))
            return
        job = self._job(options, line, cell)
        # Here already, so that what can never run costs neither a worker nor a copy of the variables.
        refuse_impossible(request_for(job, options.memory), await read_devices_async(self.settings))
        waiting = self.spare.take(os.environ)  # first: it imports torch while the variables are packed
        try:
            shipment = self._ship(names)
            paths = create_job_files(self.settings, job)
            paths.graph.write_bytes(shipment.graph)
        except BaseException:
            waiting.dismiss()
            raise
        self._started[job.id] = waiting.give(job, paths, shipment.memory.fds, self.shell.execution_count)
        self._shipments[job.id] = shipment
        await self._follow_or_detach(options, job, paths, interrupts, leaving)

    async def _resume(self, options: argparse.Namespace, interrupts: Interrupts, leaving: Leaving) -> None:
        """Go on with a job; where this notebook still has its objects, they are those that are trained."""
        found = await resume.prepare(self.settings, options.job, options.gpu)
        job, paths = found.job, found.paths
        waiting = self.spare.take(found.env, found.start.python)
        try:
            self._started[job.id] = waiting.give_again(job, paths, options.gpu)
        except BaseException:
            waiting.dismiss()
            raise
        self._brought.discard(job.id)
        if (shipment := self._shipments.get(job.id)) is not None:  # of a detached cell; the checkpoint has the bytes
            self._shipments[job.id] = replace(shipment, memory=Memory([]))
        self._say(found.words(time.time()))
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
        try:
            if options.detach:
                self._follow_apart(job, paths, after, card)
            else:
                await self._follow(job, paths, interrupts, leaving, after=after, card=card)
        finally:
            if self.settings.spare_worker:
                self.spare.prepare()  # now, not earlier: importing torch would have slowed the cell down

    def _read_cell(self, cell: str) -> CellNames:
        """What the cell reads and writes; its mistakes are found before anything is started."""
        source = self.shell.transform_cell(cell)
        try:
            names = names_of(source)
        except SyntaxError as error:
            raise self._syntax_error(error, source) from None
        try:
            check_names(names, self._defined())
        except NameNotDefined as error:
            error.line += 1  # of the magic itself
            raise
        return names

    def _syntax_error(self, error: SyntaxError, source: str) -> Exception:
        if error.text is None and error.lineno is not None:  # the compiler, unlike the parser, leaves it out
            error.text = source.splitlines()[error.lineno - 1]
        # One line further down in the cell that the user sees: the magic's own.
        error.lineno = (error.lineno or 0) + 1
        error.end_lineno = (error.end_lineno or 0) + 1
        error.filename = "the cell"
        lines = self.shell.SyntaxTB.structured_traceback(SyntaxError, error, None)
        return cell_failed(Failure("SyntaxError", str(error), tuple(lines)))

    def _visible(self) -> dict[str, Any]:
        """The user's own names, without those that IPython puts there."""
        hidden = self.shell.user_ns_hidden
        return {name: value for name, value in self.shell.user_ns.items() if hidden.get(name, hidden) is not value}

    def _defined(self) -> set[str]:
        """Every name that may have a value by the time the cell reads it: a function may bind one by `global`."""
        functions = [value for value in self._visible().values() if isinstance(value, FunctionType)]
        return set(self.shell.user_ns).union(*(names_of_code(function.__code__) for function in functions))

    def _ship(self, names: CellNames) -> Shipment:
        visible = self._visible()
        # A cell that runs text (exec, %time) may read any name: all that can travel goes along.
        wanted = {name: name in names.needs for name in visible if names.dynamic or name in names.needs}
        while True:
            try:
                with rng.travelling(self.shell.user_ns) as generators, modes.travelling(self.shell.user_ns) as set_here:
                    return ship([*wanted, generators, set_here], self.shell.user_ns)
            except CannotTravel as error:
                refused = (error, *error.others)
                spared = [one.name for one in refused if wanted.get(one.name) is False]
                if not spared:
                    for one in refused:
                        one.line = names.reads[one.name] + 1 if one.name in names.reads else None
                    raise
                for name in spared:
                    del wanted[name]

    def _plan(self, options: argparse.Namespace, names: CellNames) -> str:
        sizes = {name: size for name, size in self._ship(names).sizes.items() if name not in (rng.NAME, modes.NAME)}
        return table.plan(self._status.read(self.settings), options.gpu, options.memory, sizes)

    def _job(self, options: argparse.Namespace, line: str, cell: str) -> Job:
        notebook = os.environ.get("JPY_SESSION_NAME", "")  # set by Jupyter's server to the notebook's path
        name = options.name or _free_name(self.settings, Path(notebook).stem or "cell")
        for other, paths in all_jobs(self.settings):
            state = read_record(paths).state if other.name == name else "done"
            if state == "released":
                raise BadOption(
                    f"Your job {name!r} is released and waits to be resumed: %gpufit resume {name}. Choose another"
                    f" --name, or delete it: %gpufit clean {name}"
                )
            if state not in ("done", "failed", "stopped", "lost"):
                raise BadOption(f"Your job {name!r} is still running. Choose another --name, or stop it first.")
        return Job(
            id=new_job_id(),
            name=name,
            source=cell,
            magic_line=f"%%gpufit {line}",
            options=Options(gpu=options.gpu, memory=options.memory, exclusive=options.exclusive),
            created=time.time(),
            cwd=os.getcwd(),
            notebook=notebook,
            kernel_id=_kernel_id(self.shell),
            version=__version__,
        )

    # Estimate -------------------------------------------------------------------------------------------------------

    async def _estimate(self, options: argparse.Namespace, line: str, cell: str, interrupts: Interrupts) -> None:
        from .estimate import script, session, shipped, show  # kernels that only train start faster without

        if options.script:
            raise BadOption("A script is estimated in a terminal: gpufit estimate train.py")
        wish = script.wish_of(options.on, options.steps, options.sweep, options.max_batch)
        source = f"# %%gpufit {line}\n{self.shell.transform_cell(cell)}"
        all_told: list[session.Told] = []

        def told(one: session.Told) -> None:
            all_told.append(one)
            for bundle in [] if options.json else show.notebook(one):
                self.shell.display_pub.publish(bundle)

        with shipped.shipped(source, self._ship(self._read_cell(cell))) as (program, descriptors):
            async with _unless(interrupts, "the estimate was interrupted"):
                await session.estimate(program, wish, self.settings, told, descriptors)
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
        if record.version and record.version != __version__:
            raise VersionDiffers(job.name, record.version, __version__)
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
        show = NotebookShow(self.shell, job, self._said)
        returned: list[Returned] = []
        kept = self._shipments.get(job.id)
        resumed = kept is not None and not kept.memory.fds  # whoever resumes a job wants its result

        def bring_back(reply: Reply) -> None:
            returned.append(self._bring_back(job, reply))
            self._name_anew(job, returned[0], show, resumed)
            for left in returned[0].left_behind:
                if left not in reply.left_behind:  # those the worker has told already
                    show(Note(str(left)))

        def take(found: list[int], counts: list[int]) -> None:
            shipment = self._shipments.get(job.id)
            reply, came_in = from_descriptors(found, counts, paths, has_objects=shipment is not None)
            if shipment is not None:  # a resumed worker has the input's bytes in a memory of its own
                self._shipments[job.id] = replace(shipment, memory=came_in)
            bring_back(reply)

        try:
            end = await follow(
                job,
                paths,
                with_card(show, card),
                after=after,
                interrupts=interrupts,
                leaving=leaving,
                exit_code=self._exit_code(job),
                take=take,
            )
            if end.state != "released" and not returned and not self._has_them(job, show, again):
                if (reply := load(paths)) is not None:
                    bring_back(reply)
        finally:
            modes.arrived(self.shell.user_ns)
            self._keep_for_resume(job, paths)
            self._reap(job)
        if returned:
            self._brought.add(job.id)
        elif end.state == "done" and job.id not in self._brought:
            show(Note(f"The variables of {job.name} are in the notebook that followed it to its end, not in this one."))
        record = read_record(paths)
        if end.state != "released" and record.resumable and record.checkpoint is not None:
            step = record.checkpoint.step
            show(Note(f"{job.name} was saved at step {step:,}; to go on from there: %gpufit resume {job.name}"))
        if show.failure is not None:
            raise cell_failed(show.failure)
        _raise_if_unexplained(job, end)

    def _keep_for_resume(self, job: Job, paths: JobPaths) -> None:
        """Whatever the end, nothing comes back that could use the shipment, unless the job is resumed.

        Then its objects are needed, to become what they are trained to; the bytes are in the checkpoint.
        """
        shipment = self._shipments.pop(job.id, None)
        if shipment is not None and read_record(paths).resumable:
            self._shipments[job.id] = replace(shipment, memory=Memory([]))

    def _has_them(self, job: Job, show: NotebookShow, again: bool) -> bool:
        """Whether this notebook has the job's variables already: bringing them twice would undo what came since."""
        if again and (aside := self._aside.pop(job.id, None)) is not None:
            self.shell.user_ns.update(aside)
            show(Note(f"Of {job.name}, trained, are now: {', '.join(aside)}."))
            return True
        if again or job.id not in self._brought:
            return False
        show(Note(f"The variables of {job.name} came earlier. To have them again: %gpufit attach --again {job.name}"))
        return True

    def _reap(self, job: Job) -> None:
        started = self._started.pop(job.id, None)
        if started is not None:
            threading.Thread(target=started.reap, name=f"gpufit-reap-{job.name}", daemon=True).start()

    def _bring_back(self, job: Job, reply: Reply) -> Returned:
        shipment = self._shipments.get(job.id)
        try:
            if shipment is not None:
                return shipment.bring_back(reply, self.shell.user_ns)
            return bring_into(self.shell.user_ns, reply)
        finally:
            rng.arrived(self.shell.user_ns)

    def _name_anew(self, job: Job, returned: Returned, show: NotebookShow, resumed: bool) -> None:
        """Say which names no longer lead to what was trained: of a resumed job they are bound to it again."""
        parted = {name: value for name, value in returned.parted.items() if name not in (rng.NAME, modes.NAME)}
        self._aside.pop(job.id, None)
        if not parted:
            return
        names, one = ", ".join(parted), len(parted) == 1
        if resumed:
            self.shell.user_ns.update(parted)
            now = "it is the trained one" if one else "they are the trained ones"
            show(Note(f"{names} had been defined anew since; {now} of {job.name} now."))
            return
        self._aside[job.id] = parted
        stay, trained = ("was", "the trained one") if one else ("were", "the trained ones")
        show(
            Note(
                f"{names} {stay} defined anew while {job.name} ran, and not changed now. To have {trained} of"
                f" {job.name} instead: %gpufit attach --again {job.name}"
            )
        )

    def _exit_code(self, job: Job) -> Callable[[], int | None]:
        started = self._started.get(job.id)
        return (lambda: None) if started is None else started.exit_code

    def _card(self, job: Job, paths: JobPaths, option: bool | None, *, apart: bool) -> JobCard | None:
        """A card under the cell, where one is wanted. Made now, never at load: a kernel's restart leaves it a ruin."""
        if not wants_card(self.settings.widget, option, apart=apart) or not hasattr(self.shell, "kernel"):
            return None
        from IPython.display import display

        from .widget import JobCard

        card = JobCard(job, paths, self.settings)
        display(card.box)
        return card

    def _follow_apart(self, job: Job, paths: JobPaths, after: int = 0, card: JobCard | None = None) -> None:
        """Show a detached job's output in a widget, from a thread; its variables come with `attach`."""
        from IPython.display import display
        from ipywidgets import Output

        output = Output()
        display(output)
        show = WidgetShow(output, job, self._said)
        show(Note(f"{job.name} goes on by itself. Its output, and its variables at the end: %gpufit attach {job.name}"))
        exit_code = self._exit_code(job)

        def run() -> None:
            try:
                shown = with_card(show, card)
                anyio.run(lambda: follow(job, paths, shown, after=after, exit_code=exit_code))
            except* GpufitError as group:
                show(Note(str(group.exceptions[0])))
            self._reap(job)

        threading.Thread(target=run, name=f"gpufit-{job.name}", daemon=True).start()

    async def _say_all(self, words: AsyncIterator[str], interrupts: Interrupts) -> None:
        """Say what comes of a wish; an interrupt ends the looking on, and leaves the wish."""
        async with _unless(interrupts, "What was asked for still stands"):
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


def _free_name(settings: Settings, stem: str) -> str:
    """The notebook's name with the next number, so that each of its jobs can be named on a line."""
    stem = re.sub(r"[^\w.-]+", "-", stem).strip("-")[:48] or "cell"
    taken = {job.name for job, _ in all_jobs(settings)}
    number = 1
    while f"{stem}-{number}" in taken:
        number += 1
    return f"{stem}-{number}"


def _kernel_id(shell: InteractiveShell) -> str:
    file = getattr(getattr(getattr(shell, "kernel", None), "parent", None), "connection_file", "")
    found = re.search(r"kernel-([\w-]+)\.json", file)
    return found[1] if found else ""


def _raise_if_unexplained(job: Job, end: StateChange) -> None:
    """A job that did not do its work must not look like a cell that did; one that was released does as it was told."""
    if end.state not in ("done", "released"):
        ename = "KeyboardInterrupt" if end.state == "stopped" else "JobFailed"
        raise cell_failed(Failure(ename, end.reason, (f"{job.name} {end.state}: {end.reason}",)))
