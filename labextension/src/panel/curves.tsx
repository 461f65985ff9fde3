/** The curves of a job: the numbers of its loop that its user picked, and its memory against the estimate. */

import { Poll } from '@lumino/polling';
import * as React from 'react';

import { Span } from '../model/api';
import { GpufitModel } from '../model/model';
import { Point, runs } from '../words/curves';
import { Curves as Known, GOING, Job } from '../words/schema';
import { formatBytes, formatFigure, outOf, stepWords } from '../words/units';

const INTERVAL = 3000; // ms between two questions while the job goes on
const RESTING = 60_000; // ms while nothing new is written
const LONGEST = 60_000; // ms between two tries while the server fails
const WIDTH = 260;
const HEIGHT = 48;

export function Curves(props: {
  job: Job;
  model: GpufitModel;
}): JSX.Element {
  const { job, model } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const [span, setSpan] = React.useState<Span>('whole');
  const [trouble, setTrouble] = React.useState('');
  const [known, setKnown] = useKnown(job, model, span, host);
  const drawn = known?.curves.map(({ name }) => name) ?? [];
  const pick = async (name: string): Promise<void> => {
    const names = drawn.includes(name)
      ? drawn.filter(other => other !== name)
      : [...drawn, name];
    try {
      setKnown(await model.pick(job, names, span));
      setTrouble('');
    } catch (error) {
      setTrouble((error as Error).message);
    }
  };
  return (
    <div ref={host} className="jp-gpufit-curves">
      {known && (known.names.length > 1 || known.older) && (
        <div
          className="jp-gpufit-chips"
          role="group"
          aria-label={`What is drawn of ${job.name}`}
        >
          {known.names.length > 1 &&
            known.names.map(name => (
              <Chip
                key={name}
                text={name}
                on={drawn.includes(name)}
                onClick={() => void pick(name)}
              />
            ))}
          {known.older && (
            <Chip
              text="latest only"
              on={span === 'latest'}
              onClick={() => setSpan(span === 'whole' ? 'latest' : 'whole')}
            />
          )}
        </div>
      )}
      {trouble && (
        <p role="alert" className="jp-gpufit-problem">
          {trouble}
        </p>
      )}
      {known?.curves.map(({ name, points }) => (
        <Metric
          key={name}
          name={name}
          points={points}
          cuts={known.breaks.map(({ step }) => step)}
        />
      ))}
      {known && (
        <Memory
          job={job}
          points={known.memory}
          cuts={known.breaks.map(({ left }) => left)}
        />
      )}
      {known && !known.names.length && !known.memory.length && !job.loss && (
        <p className="jp-gpufit-quiet">
          Nothing to draw: its loop has shown no number yet.
        </p>
      )}
    </div>
  );
}

/** What the server knows of the curves, asked again and again while somebody can see them. */
function useKnown(
  job: Job,
  model: GpufitModel,
  span: Span,
  host: React.RefObject<HTMLDivElement>
): [Known | null, (known: Known) => void] {
  const [known, setKnown] = React.useState<Known | null>(null);
  const interval = GOING.has(job.state) ? INTERVAL : RESTING;
  const begun = job.loss !== null; // its first number is asked for at once
  React.useEffect(() => {
    const poll = new Poll({
      name: `jupyter-gpufit:curves-${job.id}`,
      factory: async () => {
        const found = await model.curves(job, span);
        if (!poll.isDisposed) {
          setKnown(found);
        }
      },
      frequency: { interval, backoff: true, max: LONGEST },
      // A panel that is folded away keeps what it has drawn, and asks for no more.
      standby: () => document.hidden || !host.current?.offsetParent
    });
    return () => poll.dispose();
  }, [job.id, span, interval, begun]);
  return [known, setKnown];
}

function Chip(props: {
  text: string;
  on: boolean;
  onClick: () => void;
}): JSX.Element {
  return (
    <button
      type="button"
      className="jp-gpufit-chip"
      aria-pressed={props.on}
      onClick={props.onClick}
    >
      {props.text}
    </button>
  );
}

function Metric(props: { name: string; points: Point[]; cuts: number[] }): JSX.Element {
  const { name, points, cuts } = props;
  const last = points[points.length - 1];
  const value = formatFigure(last?.[1] ?? null);
  const words = `${name}: ${value} at ${stepWords(last?.[0] ?? 0)}`;
  return (
    <Picture
      name={name}
      value={value}
      points={points}
      words={words}
      cuts={cuts}
      format={formatFigure}
    />
  );
}

function Memory(props: { job: Job; points: Point[]; cuts: number[] }): JSX.Element {
  const { job, points, cuts } = props;
  const estimate = job.memory?.estimate ?? null;
  const used = points[points.length - 1]?.[1] ?? 0;
  const value =
    estimate === null
      ? formatBytes(used)
      : `${outOf(used, estimate)} estimated`;
  return (
    <Picture
      name="memory"
      value={value}
      points={points}
      words={`memory: ${value}`}
      line={estimate}
      cuts={cuts}
      format={formatBytes}
    />
  );
}

/** A curve from its least value to its largest, with a mark across; two points make one. */
function Picture(props: {
  name: string;
  value: string;
  points: Point[];
  words: string; // for a screen reader
  cuts: number[]; // places over which no line goes
  line?: number | null;
  format: (value: number) => string;
}): JSX.Element | null {
  const { name, value, points, words, line = null, format } = props;
  const known = points.filter(([, y]) => y !== null) as [number, number][];
  if (!points.length) {
    return null;
  }
  const heights = known.map(([, y]) => y);
  const least = Math.min(...heights);
  const largest = Math.max(...heights);
  const low = Math.min(least, line ?? least);
  const high = Math.max(largest, line ?? largest);
  const left = known[0]?.[0] ?? 0;
  const right = known[known.length - 1]?.[0] ?? 0;
  const x = (at: number) => (right > left ? (at - left) / (right - left) : 1);
  const y = (at: number) => (high > low ? (at - low) / (high - low) : 0.5);
  const place = ([at, height]: [number, number]) =>
    `${(x(at) * WIDTH).toFixed(1)},${across(y(height)).toFixed(1)}`;
  return (
    <figure>
      <figcaption className="jp-gpufit-line">
        <span className="jp-gpufit-name">
          <span className="jp-gpufit-quiet">{name}</span> {value}
        </span>
        {line === null && largest > least && (
          <span className="jp-gpufit-number jp-gpufit-quiet">
            {format(least)} to {format(largest)}
          </span>
        )}
      </figcaption>
      <svg
        role="img"
        aria-label={words}
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
      >
        {line !== null && known.length > 0 && (
          <line x1="0" x2={WIDTH} y1={across(y(line))} y2={across(y(line))} />
        )}
        {runs(points, props.cuts).map((stretch, i) => (
          <polyline key={i} points={(stretch.length > 1 ? stretch : alone(stretch)).map(place).join(' ')} />
        ))}
      </svg>
    </figure>
  );
}

/** One point alone: a line of no length, which its round ends make a dot. */
function alone([point]: [number, number][]): [number, number][] {
  return [point, point];
}

/** Where a share of the height lies, with room for the line's own width. */
function across(share: number): number {
  return 3 + (1 - share) * (HEIGHT - 6);
}
