"""Which bytes of a cell are on its device and which on the host, within so many bytes of room.

What is used next is known from the last step (ahead.py): it is fetched before it is needed, and what is used last of
all makes room. Where nothing is known yet, what was not used for the longest time does. What is decided depends on the
operations alone and never on how fast a copy was, so a trial run decides as the run does. Bytes on their way to the
host count as the device's until something comes in their place.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...devices import sides
from .ahead import NEVER, Courses, Name, StepCourse
from .host import HostCopy, HostMemory, drop, fetch, is_fake, room_for, save
from .link import AtOnce, CopyUnderWay, Link, await_for_reader, link_of

_WINDOW = 2  # what is brought ahead takes half of the room at the most
_FAR = 256  # uses that are looked at before they come

watchers: list[Callable[[torch.UntypedStorage, bool], None]] = []  # told of each that goes (False) or is back (True)


@dataclass(eq=False)
class PagedStorage:
    """A storage on the device, or on the host."""

    ref: Any  # a weak one: nothing here keeps it alive
    address: int
    nbytes: int
    number: int
    course: int  # in which it was born
    name: Name  # in that course; in later ones its number
    moves: bool
    stays: bool  # for good
    here: bool = True
    changed: bool = True  # since the host has a copy
    copy: HostCopy | None = None
    coming: CopyUnderWay | None = None  # it is here, but for its bytes
    going: CopyUnderWay | None = None  # it is not here, but its bytes still are
    leaving: Any = None  # event: the host has its bytes. Of the copy alone, which would keep the storage alive
    next: int = NEVER  # place in the course at which it is used again

    def on_host(self) -> torch.UntypedStorage:
        """Where its bytes are."""
        assert self.copy is not None
        await_for_reader(self.leaving)
        return self.copy.storage(self.nbytes)


class Residency:
    """One run's."""

    def __init__(self, room: int, reserved: int = 0) -> None:
        self.room = room
        self.host = HostMemory(reserved)
        self.moved = 0
        self.courses = Courses()
        self.brought_ahead = 0  # copies
        self._link: Link | None = None
        self._is_fork = False
        self._here: OrderedDict[PagedStorage, None] = OrderedDict()  # those that move, the one used last at the end
        self._now = 0  # bytes of these
        self._going: deque[tuple[PagedStorage, CopyUnderWay]] = deque()
        self._leaving = 0  # bytes of these
        self._ahead = 0  # bytes that were brought ahead, and not used yet
        self._front = 0  # up to which place the course was looked at
        self._named: dict[tuple[int, Name], PagedStorage] = {}  # by the course and its name there; -1: by its number

    @property
    def waited(self) -> float:
        """Seconds, for copies."""
        return self._link.waited if self._link is not None else 0.0

    # Who is here

    def enter(self, page: PagedStorage) -> None:
        """It moves, and is here."""
        self._named[page.course, page.name] = self._named[-1, page.number] = page
        self._here[page] = None
        self._now += page.nbytes
        self.courses.more(page.nbytes)
        self._look_up(page)

    def leave(self, page: PagedStorage) -> None:
        """It is no more, or moves no more."""
        for key in ((page.course, page.name), (-1, page.number)):
            if self._named.get(key) is page:
                del self._named[key]
        self.courses.died(self.name_of(page))
        if page in self._here:
            if page.coming is not None:
                self._have(page)
            self._gone_from_here(page)
            self.courses.more(-page.nbytes)

    def name_of(self, page: PagedStorage) -> Name:
        """As what it is used in the course that is under way."""
        return page.name if page.course == self.courses.number else page.number

    def used(self, op: str, given: Sequence[PagedStorage]) -> None:
        """An operation is about to use these; they are here."""
        moving = [page for page in given if page.moves]
        if moving:
            self.courses.use(op, tuple(map(self.name_of, moving)))
            for page in moving:
                self._look_up(page)
                self._here.move_to_end(page)

    def turn(self, key: object) -> None:
        """An optimizer has stepped."""
        self.courses.turn(key)
        self._front = 0
        for page in self._here:
            self._look_up(page)

    def _look_up(self, page: PagedStorage) -> None:
        """When it is used again."""
        courses = self.courses
        if courses.expected is None:
            return
        page.next = _place(page, courses.expected, courses.at, born_now=page.course == courses.number)
        if page.next == NEVER and courses.then is not None:
            first = _place(page, courses.then, 0, born_now=False)
            page.next = first + len(courses.expected.uses) if first != NEVER else NEVER

    # There and back

    def bring(self, given: Sequence[PagedStorage]) -> None:
        """Have all of these on the device."""
        for page in given:
            if page.going is not None:
                self._take_back(page)
        away = list({page: None for page in given if not page.here})
        if away:
            self.make_room(sum(page.nbytes for page in away), given)
            for page in away:
                self._fetch(page, ())
        for page in given:
            if page.coming is not None:
                self._have(page)

    def make_room(self, wanted: int, but: Iterable[PagedStorage]) -> None:
        """For so many bytes more."""
        if self._now + self._leaving + wanted <= self.room or self._is_fork:
            return  # a process that was forked from this one must not write to the memory that they share
        kept = set(but)
        while self._now + wanted > self.room:
            page = self._used_last(kept, -1) or next((page for page in self._here if page not in kept), None)
            if page is None:
                break
            self.send(page)
        while self._now + self._leaving + wanted > self.room and self._going:
            self._let_go()

    def bring_ahead(self, but: Sequence[PagedStorage]) -> None:
        """Begin to fetch what is used next, and to send what is used later than that."""
        course, at = self.courses.expected, self.courses.at
        if course is None or not course.uses or self._is_fork:
            return
        most = before = course.more[at - 1] if at else 0
        kept = set(but)
        for place in range(at, at + _FAR):
            then = place >= len(course.uses)
            found = self.courses.then if then else course
            index = place - len(course.uses) if then else place
            if found is None or index >= len(found.uses):
                return
            if not then:
                most = max(most, found.more[index])
            if place < self._front:
                continue
            for page in self._at(found, index, then=then):
                if page.here or page.going is not None or not page.moves or page.ref() is None:
                    continue
                if self._ahead + page.nbytes > self.room // _WINDOW:
                    return
                if not self._make_room_ahead(page.nbytes + most - before, kept, place):
                    return
                under_way = self._fetch(page, self._in_place_of(page.nbytes))
                under_way.ahead, page.next = True, place
                self._ahead += page.nbytes
                self.brought_ahead += 1
                kept.add(page)
            if not self._make_room_ahead(most - before, kept, place):
                return
            self._front = place + 1

    def _at(self, course: StepCourse, index: int, *, then: bool) -> Iterable[PagedStorage]:
        for name in course.uses[index].names:
            now = None if then else self._named.get((self.courses.number, name))
            by_number = (-1, name) if isinstance(name, int) else (course.number, name)
            page = now or self._named.get(by_number)
            if page is not None:
                yield page

    def _make_room_ahead(self, wanted: int, but: set[PagedStorage], place: int) -> bool:
        """Send what is used later than that; whether it is enough."""
        while self._now + wanted > self.room:
            page = self._used_last(but, place)
            if page is None:
                return False
            self.send(page)
        return True

    def _in_place_of(self, nbytes: int) -> list[CopyUnderWay]:
        """Those on their way to the host whose memory it takes.

        They are counted as gone at once, but are only when it comes. So they are never more than it is: another that
        is larger than what is wanted goes first.
        """
        found: list[CopyUnderWay] = []
        left = nbytes
        while self._now + self._leaving + nbytes > self.room and self._going:
            page, under_way = self._going[0]
            if under_way.storage is None or page.nbytes > left:
                self._let_go()
                continue
            self._going.popleft()
            self._leaving -= page.nbytes
            left -= page.nbytes
            found.append(under_way)
            page.going = None
            _tell(under_way.storage, False)
        return found

    def _used_last(self, but: set[PagedStorage], place: int) -> PagedStorage | None:
        """Of those that are not used until then; of equals the one that was not used for the longest time."""
        best, latest = None, place
        for page in self._here:
            if page.next > latest and page not in but:
                best, latest = page, page.next
                if latest == NEVER:
                    break
        return best

    def _gone_from_here(self, page: PagedStorage) -> None:
        del self._here[page]
        self._now -= page.nbytes

    def send(self, page: PagedStorage) -> None:
        """To the host; where the host has its bytes already, at once."""
        if page.coming is not None:
            self._have(page)
        storage = page.ref()
        if storage is not None and page.copy is None:
            page.copy = self.host.take(page.nbytes, real=not is_fake(storage))
        self._gone_from_here(page)
        if storage is None:
            return
        page.here = False
        if not page.changed:
            setattr(storage, sides.AWAY, page.on_host)
            drop(storage, page.nbytes)
            _tell(storage, False)
            return
        self._link = self._link or link_of(storage)
        under_way, copy, nbytes = CopyUnderWay(storage, page.nbytes), page.copy, page.nbytes
        assert copy is not None
        self._link.out(lambda: save(storage, copy, nbytes, beside=True), under_way)
        page.changed, page.going, page.leaving = False, under_way, under_way.event
        setattr(storage, sides.AWAY, page.on_host)  # not before: who reads in another thread waits for that event
        self.moved += nbytes
        self._going.append((page, under_way))
        self._leaving += nbytes

    def _let_go(self) -> None:
        """Of who is on its way longest: its memory goes back."""
        page, under_way = self._going[0]
        assert self._link is not None
        self._link.wait(under_way)
        self._going.popleft()
        self._leaving -= page.nbytes
        if (storage := under_way.storage) is not None:
            page.going = page.leaving = under_way.storage = None
            drop(storage, page.nbytes)
            _tell(storage, False)

    def _take_back(self, page: PagedStorage) -> None:
        """One whose bytes are still here."""
        assert self._link is not None and page.going is not None
        self._link.wait(page.going)
        storage, page.going.storage = page.going.storage, None
        self._leaving -= page.nbytes
        self._going.remove((page, page.going))
        page.going = page.leaving = None
        delattr(storage, sides.AWAY)
        page.here = True
        self._here[page] = None
        self._now += page.nbytes

    def _fetch(self, page: PagedStorage, after: Sequence[CopyUnderWay]) -> CopyUnderWay:
        storage, copy, nbytes = page.ref(), page.copy, page.nbytes
        assert copy is not None and storage is not None
        self._link = self._link or link_of(storage)
        under_way = CopyUnderWay(storage, nbytes)
        under_way.after = after

        def room() -> None:
            for one in after:
                assert one.storage is not None
                drop(one.storage, one.nbytes)
            room_for(storage, nbytes)

        self._link.back(room, lambda: fetch(storage, copy, nbytes), under_way, after)
        page.coming, page.here = under_way, True
        self.moved += nbytes
        self._here[page] = None
        self._now += nbytes
        _tell(storage, True)
        return under_way

    def _have(self, page: PagedStorage) -> None:
        """Its bytes are here, too."""
        assert self._link is not None and page.coming is not None
        self._link.wait(page.coming)
        storage = page.coming.storage
        if page.coming.ahead:
            self._ahead -= page.nbytes
        page.coming = None
        delattr(storage, sides.AWAY)

    # Processes

    def settle(self) -> None:
        """Nothing is on its way."""
        for page in [page for page in self._here if page.coming is not None]:
            self._have(page)
        while self._going:
            self._let_go()

    def forked(self) -> None:
        """In a process that has no threads of ours, and shares its memory with one that has."""
        self._link, self._is_fork = AtOnce(), True


def _place(page: PagedStorage, course: StepCourse, at: int, *, born_now: bool) -> int:
    if born_now:
        return course.next_place(page.name, at)
    found = course.next_place(page.number, at)
    return course.next_place(page.name, at) if found == NEVER and page.course == course.number else found


def _tell(storage: torch.UntypedStorage, back: bool) -> None:
    for told in watchers:
        told(storage, back)
