/** The table of runs: its columns, their order, and how it leaves as CSV; pure. */

import { Job } from './schema';
import { ranFor } from './states';
import { deviceWords, formatBytes, formatCount, formatDuration, formatFigure, formatMoment } from './units';

export type Cell = string | number | null;

export interface Column {
  key: string;
  title: string;
  value: (job: Job, now: number) => Cell; // what is sorted, and goes into the CSV
  words: (value: Cell, now: number) => string;
}

const plain = (value: Cell) => (value === null ? '' : String(value));
const number = (write: (value: number) => string) => (value: Cell) =>
  typeof value === 'number' ? write(value) : plain(value);

export const COLUMNS: Column[] = [
  { key: 'name', title: 'Run', value: ({ name }) => name, words: plain },
  { key: 'state', title: 'State', value: ({ state }) => state, words: plain },
  {
    key: 'began',
    title: 'Began',
    value: ({ began, created }) => began ?? created,
    words: (value, now) => number(at => formatMoment(at, now))(value)
  },
  { key: 'ran_s', title: 'Ran', value: ranFor, words: number(formatDuration) },
  { key: 'steps', title: 'Steps', value: ({ progress }) => progress.step, words: number(formatCount) },
  { key: 'loss', title: 'Loss', value: ({ loss }) => loss?.value ?? null, words: number(formatFigure) },
  {
    key: 'peak_bytes',
    title: 'Peak',
    value: ({ memory }) => memory?.peak ?? null,
    words: number(formatBytes)
  },
  {
    key: 'device',
    title: 'Device',
    value: ({ device }) => device,
    words: value => (value ? deviceWords(String(value)) : '')
  },
  {
    key: 'notebook',
    title: 'Notebook',
    value: ({ notebook }) => notebook,
    words: value => String(value).replace(/^.*\//, '')
  },
  { key: 'id', title: 'Id', value: ({ id }) => id, words: plain }
];

/** By one column; what has no value comes last in either direction. */
export function sorted(jobs: Job[], key: string, falling: boolean, now: number): Job[] {
  const column = COLUMNS.find(one => one.key === key) ?? COLUMNS[0];
  const compare = (a: Job, b: Job) => {
    const [x, y] = [column.value(a, now), column.value(b, now)];
    if (x === null || y === null) {
      return x === y ? 0 : x === null ? 1 : -1;
    }
    const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
    return falling ? -order : order;
  };
  return [...jobs].sort(compare);
}

/** As spreadsheets read it: numbers as they are, moments in ISO 8601, quoted where it must be. */
export function asCsv(jobs: Job[], now: number): string {
  const rows = jobs.map(job =>
    COLUMNS.map(({ key, value }) => {
      const found = value(job, now);
      return key === 'began' ? new Date(1000 * Number(found)).toISOString() : plain(found);
    })
  );
  return [COLUMNS.map(({ key }) => key), ...rows].map(row => row.map(quoted).join(',')).join('\r\n') + '\r\n';
}

/** A name that begins like a formula is another's text, and must not become one in a spreadsheet. */
function quoted(text: string): string {
  const safe = /^[=+@\t\r]|^-(?!\d)/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}
