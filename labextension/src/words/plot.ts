/** What is done with the numbers of one run or of several before they are drawn over each other; pure. */

import { Point } from './curves';
import { Break, Curves } from './schema';

/** What is drawn from left to right. */
export type Across = 'step' | 'time';

/** One line: of a number of a run. */
export interface Line {
  run: string; // the job's id
  name: string;
  points: Point[];
}

/** Smoothed as by a mean that forgets: 0 leaves it as it is, 0.99 keeps nearly nothing of one point alone. */
export function smoothed(points: Point[], weight: number): Point[] {
  let mean = 0;
  let share = 0; // of all that was seen, what `mean` counts: else it would begin at zero
  return points.map(([x, y]) => {
    if (y === null || weight <= 0) {
      return [x, y];
    }
    mean = weight * mean + (1 - weight) * y;
    share = weight * share + (1 - weight);
    return [x, mean / share];
  });
}

/** Which points a picture with a logarithmic scale has. */
export function positive(points: Point[]): Point[] {
  return points.map(([x, y]) => [x, y !== null && y > 0 ? y : null]);
}

const LESS_IS_BETTER = /loss|err|nll|perplexity|ppl|mae|mse|cer|wer|fid/i;
const MORE_IS_BETTER = /acc|f1|auc|bleu|rouge|score|precision|recall|iou|map|reward|psnr|ssim|r2/i;

/** The best value, where the number's name tells what is better. */
export function best(name: string, points: Point[]): [number, number] | null {
  const sign = LESS_IS_BETTER.test(name) ? 1 : MORE_IS_BETTER.test(name) ? -1 : 0;
  const known = points.filter(([, y]) => y !== null) as [number, number][];
  if (!sign || !known.length) {
    return null;
  }
  return known.reduce((a, b) => (sign * b[1] < sign * a[1] ? b : a));
}

/** When a run was at a step: between two ticks of its clock, in proportion. */
export function timeOf(clock: Point[], step: number): number {
  const ticks = clock as [number, number][];
  if (!ticks.length) {
    return step;
  }
  let [next, end] = [0, ticks.length]; // the first that is not before it, by halves: it is asked for each point
  while (next < end) {
    const middle = (next + end) >> 1;
    [next, end] = ticks[middle][0] < step ? [middle + 1, end] : [next, middle];
  }
  if (next === 0 || next === ticks.length) {
    return ticks[Math.min(next, ticks.length - 1)][1];
  }
  const [[a, from], [b, to]] = [ticks[next - 1], ticks[next]];
  return b > a ? from + ((to - from) * (step - a)) / (b - a) : to;
}

/** Points over steps, as points over seconds since 1970, or since the run began. */
export function overTime(points: Point[], curves: Pick<Curves, 'clock'>, zero: number): Point[] {
  return points.map(([step, y]) => [timeOf(curves.clock, step) - zero, y]);
}

/** With a hole at each break, over which no line goes. */
export function parted(points: Point[], breaks: Break[], across: Across, zero = 0): Point[] {
  const cuts = gapsOf({ breaks }, across, zero).sort((a, b) => a - b);
  const found: Point[] = [];
  for (const [x, y] of points) {
    const ahead = cuts.length;
    while (cuts.length && cuts[0] < x) {
      cuts.shift();
    }
    const last = found[found.length - 1];
    if (cuts.length < ahead && last) {
      found.push([(last[0] + x) / 2, null]);
    }
    found.push([x, y]);
  }
  return found;
}

const MOST_PLACES = 4000; // on one axis: more than a wide picture has pixels
const COLUMNS = 1000;

/** A line's least and largest of each column of a picture, so that many lines share their places. */
export function inColumns(points: Point[], from: number, width: number): Point[] {
  const found: Point[] = [];
  for (let at = 0; at < points.length; ) {
    const column = Math.floor((points[at][0] - from) / width);
    const end = from + (column + 1) * width;
    const some: Point[] = [];
    do {
      some.push(points[at++]);
    } while (at < points.length && points[at][0] < end);
    const known = some.filter(([, y]) => y !== null) as [number, number][];
    const least = known.length ? known.reduce((a, b) => (b[1] < a[1] ? b : a)) : null;
    const largest = known.length ? known.reduce((a, b) => (b[1] > a[1] ? b : a)) : null;
    const [first, second] = least && largest && least[0] <= largest[0] ? [least, largest] : [largest, least];
    found.push([end - width, first ? first[1] : null]);
    if (known.length && known.length < some.length) {
      found.push([end - width / 2, null]); // a hole stays one
    } else if (first !== second) {
      found.push([end - width / 2, second ? second[1] : null]);
    }
  }
  return found;
}

/** Several lines on one axis: [x's, y's of each]; undefined: it has no point there, null: a hole. */
export function aligned(given: Point[][]): [number[], ...(number | null | undefined)[][]] {
  const all = new Set(given.flatMap(points => points.map(([x]) => x)));
  let lines = given;
  if (all.size > MOST_PLACES && given.length > 1) {
    let [from, to] = [Infinity, -Infinity];
    for (const x of all) {
      [from, to] = [Math.min(from, x), Math.max(to, x)];
    }
    const width = (to - from) / COLUMNS;
    lines = given.map(points => inColumns(points, from, width));
  }
  const places = [...new Set(lines.flatMap(points => points.map(([x]) => x)))].sort((a, b) => a - b);
  const at = new Map(places.map((x, i) => [x, i]));
  const columns = lines.map(points => {
    const column = new Array<number | null | undefined>(places.length).fill(undefined);
    points.forEach(([x, y]) => (column[at.get(x)!] = y));
    return column;
  });
  return [places, ...columns];
}

/** Distances between the marks of an axis of time, of bytes. */
export const SECONDS = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 28 * 86400];
export const BYTES = Array.from({ length: 41 }, (_, power) => 2 ** power);

/** Where a run had no device: on the axis that is drawn. */
export function gapsOf({ breaks }: Pick<Curves, 'breaks'>, across: Across, zero = 0): number[] {
  return breaks.map(one => (across === 'step' ? one.step : one.left - zero));
}

/** Seconds until a picture is asked for again: until what is new is as wide as a pixel of it, half a minute at the most. */
export function pause(ran: number): number {
  return Math.min(30, Math.max(3, ran / 1000));
}

/** A mark from top to bottom. */
export interface Lap {
  at: number;
  text: string;
}

/** Where the cell's outermost loop came to its next item, an epoch mostly: on the axis that is drawn. */
export function lapsOf({ laps, clock }: Pick<Curves, 'laps' | 'clock'>, across: Across, zero = 0): Lap[] {
  return laps.map(([step, number]) => ({
    at: across === 'step' ? step : timeOf(clock, step) - zero,
    text: String(number)
  }));
}

/** The colours of several lines, in their order. */
export const COLOURS = ['#1976d2', '#d9730d', '#2e8b57', '#a349a4', '#b8860b', '#c0392b', '#008b8b', '#6b6b6b'];
