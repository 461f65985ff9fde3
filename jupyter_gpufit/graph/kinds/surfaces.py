"""What pygame draws on and counts time with, as environments do once they were rendered."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from xxhash import xxh3_128

from ..kind import Kind, Pickler, Reduced

_WINDOW = "a window of this process. Make it inside the cell, or render to arrays (render_mode='rgb_array')."


def find(cls: type) -> Kind | None:
    pygame = sys.modules["pygame"]
    if cls is getattr(getattr(pygame, "time", None), "Clock", None):
        return Kind(reduce=reduce_clock)
    return SURFACE if cls is getattr(pygame, "Surface", None) else None


def reduce_clock(clock: Any, pickler: Pickler) -> Reduced:
    return make_clock, ()


def make_clock() -> Any:
    return import_module("pygame").time.Clock()


def reduce_surface(surface: Any, pickler: Pickler) -> Reduced:
    pygame = sys.modules["pygame"]
    if pygame.display.get_init() and pygame.display.get_surface() is surface:
        return pickler.refuse(surface, _WINDOW)
    palette = surface.get_palette() if surface.get_bitsize() <= 8 else None
    looks = (
        surface.get_size(),
        surface.get_flags() & pygame.SRCALPHA,
        surface.get_bitsize(),
        surface.get_masks(),
        palette,
    )
    return make_surface, looks, surface_state(surface), None, None, fill_surface


def make_surface(size: Any, flags: int, depth: int, masks: Any, palette: Any) -> Any:
    made = import_module("pygame").Surface(size, flags, depth, masks)
    if palette is not None:
        made.set_palette(palette)
    return made


def surface_state(surface: Any) -> tuple[Any, ...]:
    return surface.get_buffer().raw, surface.get_alpha(), surface.get_colorkey(), tuple(surface.get_clip())


def fill_surface(surface: Any, state: tuple[Any, ...]) -> None:
    pixels, alpha, colorkey, clip = state
    if pixels:
        surface.get_buffer().write(pixels, 0)
    surface.set_alpha(alpha)
    surface.set_colorkey(colorkey)
    surface.set_clip(clip)


def surface_mark(surface: Any) -> tuple[Any, ...]:
    pixels, *looks = surface_state(surface)
    return xxh3_128(pixels).hexdigest(), repr(looks)


SURFACE = Kind(reduce=reduce_surface, state=surface_state, fill=fill_surface, mark=surface_mark)
