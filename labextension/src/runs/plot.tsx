/** One picture of one or more lines: axes, hover, zoom. uPlot draws it: 50 KB, and a hundred lines in a few ms. */

import * as React from 'react';
import uPlot from 'uplot';

import { Point } from '../words/curves';
import { aligned, Lap } from '../words/plot';

const HEIGHT = 200; // px
const FEW = 12; // lines up to which the value of each is told; else that of the nearest
const NEAR = 24; // px
const APART = 26; // px between two marks of epochs at the least

/** How the values of an axis are written, and at which distances: minutes are not counted in tens of seconds. */
export interface Scale {
  write: (value: number) => string;
  steps?: number[];
  range?: [number, number]; // else as far as the values go
}

/** A line of the picture. */
export interface Drawn {
  label: string;
  colour: string;
  points: Point[];
  dash?: number[];
  faint?: boolean; // what lies under its smoothed form
}

export interface Range {
  from: number;
  to: number;
}

export function Plot(props: {
  title: string;
  words: string; // for who does not see it
  lines: Drawn[];
  logarithmic?: boolean;
  marks?: { y: number; text: string }[]; // lines across
  gaps?: number[]; // places where it had no device
  laps?: Lap[]; // where its epochs began
  x: Scale;
  y: Scale;
  group: string; // pictures of a group hover and zoom together
  range: Range | null;
  onRange: (range: Range | null) => void;
}): JSX.Element {
  const { title, words, lines, logarithmic = false, marks = [], group, range } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const plot = React.useRef<uPlot | null>(null);
  const latest = React.useRef(props);
  latest.current = props;
  const shape = JSON.stringify([lines.map(({ label, colour, faint, dash }) => [label, colour, faint, dash]), logarithmic, marks, props.gaps, props.laps]);

  React.useEffect(() => {
    const made = new uPlot(options(latest, host.current!), data(latest.current), host.current!);
    plot.current = made;
    const size = new ResizeObserver(() => made.setSize({ width: host.current!.clientWidth, height: HEIGHT }));
    size.observe(host.current!);
    const themes = new MutationObserver(() => made.redraw(false));
    themes.observe(document.body, { attributeFilter: ['data-jp-theme-name'] });
    return () => {
      themes.disconnect();
      size.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, group, props.x, props.y]);

  React.useEffect(() => {
    plot.current?.setData(data(props), false);
    show(plot.current, range);
  }, [lines, range]);

  return (
    <figure className="jp-gpufit-plot">
      <figcaption>{title}</figcaption>
      <div
        ref={host}
        data-many={lines.length > FEW}
        role="img"
        aria-label={words}
        tabIndex={0}
        onKeyDown={event => {
          const next = stepped(plot.current, event.key);
          if (next !== undefined) {
            event.preventDefault();
            props.onRange(next);
          }
        }}
      />
    </figure>
  );
}

function data({ lines }: { lines: Drawn[] }): uPlot.AlignedData {
  return aligned(lines.map(({ points }) => points)) as uPlot.AlignedData;
}

function show(plot: uPlot | null, range: Range | null): void {
  const places = plot?.data[0];
  if (plot && places?.length) {
    const min = range?.from ?? places[0];
    const max = range?.to ?? places[places.length - 1];
    plot.setScale('x', { min, max: max > min ? max : min + 1 });
  }
}

/** By keyboard: nearer, farther, to the left, to the right, all. */
function stepped(plot: uPlot | null, key: string): Range | null | undefined {
  const { min, max } = plot?.scales.x ?? {};
  if (min === undefined || max === undefined || min === null || max === null) {
    return undefined;
  }
  const width = max - min;
  switch (key) {
    case '+':
      return { from: min + width / 4, to: max - width / 4 };
    case '-':
      return { from: min - width / 2, to: max + width / 2 };
    case 'ArrowLeft':
      return { from: min - width / 4, to: max - width / 4 };
    case 'ArrowRight':
      return { from: min + width / 4, to: max + width / 4 };
    case '0':
    case 'Escape':
      return null;
  }
  return undefined;
}

type Latest = React.MutableRefObject<Parameters<typeof Plot>[0]>;

function options(latest: Latest, host: HTMLElement): uPlot.Options {
  const { lines, logarithmic = false, marks = [], gaps = [], laps = [], group, x, y } = latest.current;
  const many = lines.length > FEW;
  const style = getComputedStyle(host);
  const theme = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: () => theme('--jp-ui-font-color1'), // asked at each drawing: the theme may be another by then
    font: `11px ${theme('--jp-ui-font-family') || 'sans-serif'}`,
    grid: { stroke: () => theme('--jp-border-color2'), width: 1 },
    ticks: { stroke: () => theme('--jp-border-color2'), width: 1 }
  };
  return {
    width: host.clientWidth || 600,
    height: HEIGHT,
    legend: { show: !many },
    focus: { alpha: 1 },
    cursor: {
      sync: { key: group },
      focus: many ? { prox: NEAR } : undefined,
      points: many ? { show: false } : undefined,
      drag: { x: true, y: false, setScale: false },
      bind: { dblclick: () => () => (latest.current.onRange(null), null) }
    },
    scales: {
      x: { time: false, auto: false },
      y: {
        distr: logarithmic ? 3 : 1,
        range: (_, low, high) => latest.current.y.range ?? spread(low, high, logarithmic, marks)
      }
    },
    axes: [
      { ...axis, size: 28, space: 90, incrs: x.steps, values: (_, ticks) => ticks.map(x.write) },
      {
        ...axis,
        size: 76,
        incrs: logarithmic ? undefined : y.steps,
        values: (_, ticks) => ticks.map(tick => (tick === null ? '' : y.write(tick)))
      }
    ],
    series: [
      { label: 'at', value: (_, value) => (value === null ? '–' : x.write(value)) },
      ...lines.map(({ label, colour, dash, faint }): uPlot.Series => ({
        label,
        stroke: faint ? `${colour}55` : colour,
        width: faint ? 1 : 1.6,
        dash,
        points: { show: false },
        spanGaps: false,
        value: (_, value) => (value === null || value === undefined ? '–' : y.write(value))
      }))
    ],
    hooks: {
      ready: [plot => show(plot, latest.current.range)],
      setSeries: [(plot, at) => many && near(plot, at, x, y)],
      setSelect: [
        plot => {
          if (plot.select.width > 3) {
            const from = plot.posToVal(plot.select.left, 'x');
            const to = plot.posToVal(plot.select.left + plot.select.width, 'x');
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            latest.current.onRange({ from, to });
          }
        }
      ],
      draw: [
        plot => begin(plot, laps, theme('--jp-ui-font-color3'), axis.stroke(), axis.font),
        plot => gaps.forEach(at => down(plot, at, theme('--jp-warn-color1'), [2, 3])),
        plot => {
          const look = { ink: axis.stroke(), paper: theme('--jp-layout-color1'), font: axis.font };
          marks.forEach(mark => across(plot, mark, theme('--jp-warn-color1'), look));
        }
      ]
    }
  };
}

/** Of many lines, the one under the pointer is told. */
function near(plot: uPlot, at: number | null, x: Scale, y: Scale): void {
  let said = plot.root.querySelector<HTMLElement>('.jp-gpufit-near');
  if (!said) {
    said = document.createElement('p');
    said.className = 'jp-gpufit-near jp-gpufit-quiet';
    plot.root.append(said);
  }
  const place = at === null ? null : plot.cursor.idxs?.[at];
  const value = at === null || place === null || place === undefined ? null : plot.data[at][place];
  said.textContent =
    value === null || value === undefined
      ? ''
      : `${plot.series[at!].label}: ${y.write(value)} at ${x.write(plot.data[0][place!])}`;
}

/** With room for the marks; a line that stays at one value is drawn in the middle. */
function spread(low: number, high: number, logarithmic: boolean, marks: { y: number }[]): [number, number] {
  const all = [low, high, ...marks.map(({ y }) => y)].filter(value => value !== null && Number.isFinite(value));
  if (!all.length) {
    return logarithmic ? [0.1, 10] : [0, 1];
  }
  const [least, most] = [Math.min(...all), Math.max(...all)];
  if (logarithmic) {
    return [least / 1.2, most * 1.2];
  }
  const room = (most - least || Math.abs(most) || 1) * 0.06;
  return [least - room, most + room];
}

/** Where its epochs began, with their numbers; where these come close, some of them. */
function begin(plot: uPlot, laps: Lap[], colour: string, ink: string, font: string): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio || 1;
  let last = -Infinity;
  for (const { at, text } of laps) {
    const x = plot.valToPos(at, 'x', true);
    if (x < bbox.left || x > bbox.left + bbox.width || x - last < APART * ratio) {
      continue;
    }
    last = x;
    down(plot, at, colour, [8 * ratio, 4 * ratio]);
    ctx.save();
    ctx.fillStyle = ink;
    ctx.textAlign = 'left';
    ctx.font = font.replace('11px', `${10 * ratio}px`);
    ctx.textBaseline = 'top';
    ctx.fillText(text, x + 3 * ratio, bbox.top + 2 * ratio);
    ctx.restore();
  }
}

/** A line from top to bottom. */
function down(plot: uPlot, at: number, colour: string, dash: number[]): void {
  const { ctx, bbox } = plot;
  const x = plot.valToPos(at, 'x', true);
  if (x >= bbox.left && x <= bbox.left + bbox.width) {
    ctx.save();
    ctx.strokeStyle = colour;
    ctx.lineWidth = devicePixelRatio || 1;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }
}

function across(
  plot: uPlot,
  mark: { y: number; text: string },
  colour: string,
  { ink, paper, font }: Record<'ink' | 'paper' | 'font', string>
): void {
  const { ctx, bbox } = plot;
  const y = plot.valToPos(mark.y, 'y', true);
  if (y < bbox.top || y > bbox.top + bbox.height) {
    return;
  }
  const ratio = devicePixelRatio || 1;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = ratio;
  ctx.setLineDash([6 * ratio, 4 * ratio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.font = font.replace('11px', `${11 * ratio}px`);
  ctx.textAlign = 'right';
  ctx.textBaseline = 'bottom';
  const right = bbox.left + bbox.width - 4 * ratio;
  const below = y - bbox.top < 16 * ratio; // above it there is no room
  const bottom = below ? y + 16 * ratio : y - 3 * ratio;
  const width = ctx.measureText(mark.text).width;
  ctx.fillStyle = paper; // a line that goes through a word makes it hard to read
  ctx.fillRect(right - width - 3 * ratio, bottom - 12 * ratio, width + 6 * ratio, 12 * ratio);
  ctx.fillStyle = ink;
  ctx.fillText(mark.text, right, bottom);
  ctx.restore();
}
