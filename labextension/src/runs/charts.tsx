/** The pictures of one run or of several over each other: each of their numbers, and the memory. */

import * as React from 'react';

import { GpufitModel } from '../model/model';
import { Point } from '../words/curves';
import { Across, best, BYTES, COLOURS, gapsOf, lapsOf, overTime, parted, positive, SECONDS, smoothed } from '../words/plot';
import { Curves, Job } from '../words/schema';
import { formatBytes, formatCount, formatDuration, formatFigure, stepWords } from '../words/units';
import { Known, useRuns } from './known';
import { Drawn, Plot, Range, Scale } from './plot';

const STEPS: Scale = { write: formatCount };
const TIME: Scale = { write: formatDuration, steps: SECONDS };
const FIGURES: Scale = { write: formatFigure };
const MEMORY: Scale = { write: formatBytes, steps: BYTES };
const PERCENT: Scale = { write: percent => `${formatFigure(Math.round(percent))} %`, range: [0, 100] };
const WATTS: Scale = { write: watts => `${formatFigure(Math.round(watts))} W` };
const FIRST = ['loss']; // drawn until something is chosen, with whatever the reader picked in the panel

export function Charts(props: {
  jobs: Job[];
  model: GpufitModel;
  group: string;
  claimed: number | null; // bytes of the one run that is shown
}): JSX.Element {
  const { jobs, model, group, claimed } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const [chosen, setChosen] = React.useState<string[]>([]);
  const [across, setAcross] = React.useState<Across>('step');
  const [logarithmic, setLogarithmic] = React.useState(false);
  const [weight, setWeight] = React.useState(0);
  const [range, setRange] = React.useState<Range | null>(null);
  const { known, trouble } = useRuns(model, jobs, chosen, across === 'step' ? range : null, host);
  const names = [...new Set(jobs.flatMap(({ id }) => known.get(id)?.names ?? []))];
  const shown = chosen.length ? chosen : first(jobs, known, names);
  // A reading of the devices comes every second, and changes no line.
  const pictures = React.useMemo(
    () => shown.map((name): [string, Drawn[]] => [name, linesOf(jobs, known, name, across, logarithmic, weight)]),
    [known, shown.join(), jobs.map(({ id }) => id).join(), across, logarithmic, weight]
  );
  const pick = (name: string) =>
    setChosen(shown.includes(name) ? shown.filter(other => other !== name) : [...shown, name]);
  const where = across === 'step' ? STEPS : TIME;
  const only = jobs.length === 1 ? known.get(jobs[0].id) : undefined;
  const gaps = only ? gapsOf(only, across, beginOf(jobs[0], only)) : [];
  const laps = only ? lapsOf(only, across, beginOf(jobs[0], only)) : [];
  return (
    <div ref={host} className="jp-gpufit-charts">
      <div className="jp-gpufit-controls" role="group" aria-label="How it is drawn">
        <label>
          Over{' '}
          <select
            value={across}
            onChange={event => {
              setRange(null);
              setAcross(event.target.value as Across);
            }}
          >
            <option value="step">steps</option>
            <option value="time">time since it began</option>
          </select>
        </label>
        <label>
          <input
            type="checkbox"
            checked={logarithmic}
            onChange={event => setLogarithmic(event.target.checked)}
          />
          Logarithmic
        </label>
        <label>
          Smoothing{' '}
          <input
            type="range"
            min="0"
            max="0.99"
            step="0.01"
            value={weight}
            onChange={event => setWeight(Number(event.target.value))}
          />
        </label>
        <button
          type="button"
          className="jp-gpufit-button"
          aria-disabled={range === null}
          onClick={() => setRange(null)}
        >
          Whole run
        </button>
        <span className="jp-gpufit-quiet">
          Drag to look closer; keys + − ← → 0.{laps.length > 0 && ' Numbered lines: epochs.'}
        </span>
      </div>
      {names.length > 1 && (
        <div className="jp-gpufit-chips" role="group" aria-label="What is drawn">
          {names.map(name => (
            <button
              key={name}
              type="button"
              className="jp-gpufit-chip"
              aria-pressed={shown.includes(name)}
              onClick={() => pick(name)}
            >
              {name}
            </button>
          ))}
        </div>
      )}
      {trouble && (
        <p role="alert" className="jp-gpufit-problem">
          {trouble}
        </p>
      )}
      {pictures.map(([name, lines]) => (
        <Plot
          key={name}
          title={name}
          words={told(jobs, known, name)}
          lines={lines}
          logarithmic={logarithmic}
          x={where}
          y={FIGURES}
          gaps={gaps}
          laps={laps}
          group={group}
          range={range}
          onRange={setRange}
        />
      ))}
      {shown.length > 0 && <Best jobs={jobs} known={known} names={shown} />}
      <OverTime
        {...{ jobs, known, across, group, range }}
        what={({ memory }) => memory}
        title="memory"
        label="memory"
        words={({ memory }) => `peak ${formatBytes(memory?.peak ?? 0)}`}
        scale={MEMORY}
        marks={only ? memoryMarks(jobs[0], claimed) : []}
        onRange={setRange}
      />
      <OverTime
        {...{ jobs, known, across, group, range }}
        what={({ busy }) => busy}
        title="device busy"
        label="device busy"
        words={({ id }) => mean(known.get(id)?.busy ?? [], PERCENT.write)}
        scale={PERCENT}
        onRange={setRange}
      />
      <OverTime
        {...{ jobs, known, across, group, range }}
        what={({ power }) => power}
        title="device power"
        label="power"
        words={({ id }) => mean(known.get(id)?.power ?? [], WATTS.write)}
        scale={WATTS}
        onRange={setRange}
      />
      {known.size > 0 && !names.length && (
        <p className="jp-gpufit-quiet">Nothing to draw: no loop has shown a number yet.</p>
      )}
    </div>
  );
}

function first(jobs: Job[], known: Known, names: string[]): string[] {
  const picked = [...new Set(jobs.flatMap(({ id }) => known.get(id)?.curves.map(({ name }) => name) ?? []))];
  return picked.length ? picked : names.filter(name => FIRST.includes(name));
}

/** With its time where two of one name are drawn. */
function labelOf(job: Job, jobs: Job[]): string {
  return jobs.filter(({ name }) => name === job.name).length > 1 ? `${job.name} (${job.id})` : job.name;
}

function linesOf(
  jobs: Job[],
  known: Known,
  name: string,
  across: Across,
  logarithmic: boolean,
  weight: number
): Drawn[] {
  return jobs.flatMap((job, i) => {
    const curves = known.get(job.id);
    const points = curves?.curves.find(curve => curve.name === name)?.points;
    if (!curves || !points?.length) {
      return [];
    }
    const zero = beginOf(job, curves);
    const place = (line: typeof points) => {
      const cut = parted(line, curves.breaks, 'step');
      const placed = across === 'step' ? cut : overTime(cut, curves, zero);
      return logarithmic ? positive(placed) : placed;
    };
    const colour = COLOURS[i % COLOURS.length];
    const label = jobs.length > 1 ? labelOf(job, jobs) : name;
    const line = { label, colour, points: place(smoothed(points, weight)) };
    return weight > 0 && jobs.length === 1
      ? [{ label: `${label}, as it is`, colour, faint: true, points: place(points) }, line]
      : [line];
  });
}

function beginOf(job: Job, { clock, memory }: Curves): number {
  return job.began ?? clock[0]?.[1] ?? memory[0]?.[0] ?? 0;
}

function told(jobs: Job[], known: Known, name: string): string {
  const each = jobs.map(job => {
    const points = known.get(job.id)?.curves.find(curve => curve.name === name)?.points ?? [];
    const last = points[points.length - 1];
    return last ? `${labelOf(job, jobs)} ${formatFigure(last[1])} at ${stepWords(last[0])}` : '';
  });
  return `${name}: ${each.filter(Boolean).join('; ') || 'nothing yet'}`;
}

/** The best value of each, where its name tells what is better. */
function Best(props: { jobs: Job[]; known: Known; names: string[] }): JSX.Element | null {
  const rows = props.jobs.flatMap((job, i) =>
    props.names.flatMap(name => {
      const points = props.known.get(job.id)?.curves.find(curve => curve.name === name)?.points ?? [];
      const found = best(name, points);
      return found ? [{ job, i, name, found, last: points[points.length - 1] }] : [];
    })
  );
  if (!rows.length) {
    return null;
  }
  return (
    <div className="jp-gpufit-wide" tabIndex={0} role="region" aria-label="Best values">
      <table className="jp-gpufit-table">
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col">Number</th>
            <th scope="col">Best</th>
            <th scope="col">At step</th>
            <th scope="col">Last</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ job, i, name, found: [step, value], last }) => (
            <tr key={`${job.id} ${name}`}>
              <td>
                <span aria-hidden className="jp-gpufit-dot" style={{ background: COLOURS[i % COLOURS.length] }} />{' '}
                {labelOf(job, props.jobs)}
              </td>
              <td>{name}</td>
              <td>{formatFigure(value)}</td>
              <td>{formatCount(step)}</td>
              <td>{formatFigure(last[1])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What was measured over time, of one run or of several. */
function OverTime(props: {
  jobs: Job[];
  known: Known;
  what: (curves: Curves) => Point[];
  title: string;
  label: string;
  words: (job: Job) => string; // of one run that is shown
  scale: Scale;
  marks?: { y: number; text: string }[];
  across: Across;
  group: string;
  range: Range | null;
  onRange: (range: Range | null) => void;
}): JSX.Element | null {
  const { jobs, known, what, label, across } = props;
  // Neither a reading of the devices nor another smoothing changes a line of these.
  const lines = React.useMemo(() => timeLines(jobs, known, what, label), [known, jobs.map(({ id }) => id).join(), label]);
  if (!lines.length) {
    return null;
  }
  const only = jobs.length === 1 ? jobs[0] : null;
  const curves = only && known.get(only.id);
  // It is known over time alone: over steps, it is a picture of its own.
  const own = across === 'step';
  return (
    <Plot
      title={own ? `${props.title}, over time` : props.title}
      words={`${label}: ${only ? props.words(only) : `${lines.length} runs`}`}
      lines={lines}
      marks={props.marks}
      x={TIME}
      y={props.scale}
      gaps={only && curves ? gapsOf(curves, 'time', beginOf(only, curves)) : []}
      laps={only && curves ? lapsOf(curves, 'time', beginOf(only, curves)) : []}
      group={own ? `${props.group}-time` : props.group}
      range={own ? null : props.range}
      onRange={own ? () => undefined : props.onRange}
    />
  );
}

function timeLines(jobs: Job[], known: Known, what: (curves: Curves) => Point[], label: string): Drawn[] {
  return jobs.flatMap((job, i) => {
    const curves = known.get(job.id);
    if (!curves || !what(curves).length) {
      return [];
    }
    const zero = beginOf(job, curves);
    const points = parted(what(curves), curves.breaks, 'time').map(([at, y]): Point => [at - zero, y]);
    return [{ label: jobs.length > 1 ? labelOf(job, jobs) : label, colour: COLOURS[i % COLOURS.length], points }];
  });
}

/** Against its estimate and its claim, where one run is shown. */
function memoryMarks(job: Job, claimed: number | null): { y: number; text: string }[] {
  const estimate = job.memory?.estimate ?? null;
  return [
    ...(estimate ? [{ y: estimate, text: `estimated ${formatBytes(estimate)}` }] : []),
    ...(claimed && claimed !== estimate ? [{ y: claimed, text: `claimed ${formatBytes(claimed)}` }] : [])
  ];
}

/** "88 % on average" */
function mean(points: Point[], write: (value: number) => string): string {
  const known = points.flatMap(([, y]) => (y === null ? [] : [y]));
  return known.length ? `${write(known.reduce((a, b) => a + b) / known.length)} on average` : 'nothing yet';
}
