/** The card of a deployed model: how it is called, what it takes, and a call to try it. */

import * as React from 'react';

import { Deed, GpufitModel } from '../model/model';
import { CallFigures, GOING, Job } from '../words/schema';
import { formatBytes, formatCount, formatFigure, outOf } from '../words/units';
import { Button, Figure } from './common';

const POINTS = 120; // looks that are drawn
const WIDTH = 260;
const HEIGHT = 36;

export function Calls(props: { job: Job; calls: CallFigures }): JSX.Element {
  const { job, calls } = props;
  const { per_second, p50, p99, waiting, refused, late, rows, limit } = calls;
  const turned = refused
    ? `${formatCount(refused)} refused${late ? `, ${formatCount(late)} late` : ''}`
    : '';
  return (
    <>
      <Drawn of={job} value={per_second} />
      <dl className="jp-gpufit-figures">
        <Figure name="calls">{`${formatFigure(per_second)}/s`}</Figure>
        <Figure name="p50, p99">
          {p50 !== null && p99 !== null && `${inMs(p50)}, ${inMs(p99)}`}
        </Figure>
        <Figure name="queue">
          <span title={turned}>
            {formatCount(waiting)}
            {turned && ` (${turned})`}
          </span>
        </Figure>
        <Figure name="batch">
          {rows !== null && `${formatFigure(rows)} rows`}
        </Figure>
        <Figure name="memory">
          {job.memory && (
            <span data-over={limit !== null && job.memory.peak > limit}>
              {limit === null
                ? formatBytes(job.memory.used)
                : outOf(job.memory.used, limit)}
            </span>
          )}
        </Figure>
        <Figure name="answered">{formatCount(job.step)}</Figure>
      </dl>
    </>
  );
}

/** One call, with an input made from the signature; what came of it stands below the buttons. */
export function TryIt(props: {
  job: Job;
  deed: Deed | null;
  model: GpufitModel;
}): JSX.Element {
  const { job, deed, model } = props;
  return (
    <Button
      text="Try it"
      name={`Try ${job.name}`}
      why={GOING.has(job.state) ? '' : `It is ${job.state}.`}
      busy={deed?.phase === 'sent' && deed.action === 'try'}
      onClick={() => void model.tryIt(job)}
    />
  );
}

/** Calls a second, as this page has seen them. */
function Drawn({ of, value }: { of: Job; value: number }): JSX.Element {
  const seen = React.useRef<{ id: string; values: number[] }>({
    id: of.id,
    values: []
  });
  React.useEffect(() => {
    const values = seen.current.id === of.id ? seen.current.values : [];
    seen.current = { id: of.id, values: [...values, value].slice(-POINTS) };
  }, [of, value]);
  const values = [...seen.current.values, value].slice(-POINTS);
  const most = Math.max(...values, 1e-9);
  const points = values.map(
    (one, at) =>
      `${((at + POINTS - values.length) * WIDTH) / (POINTS - 1)},${HEIGHT - 1 - (one / most) * (HEIGHT - 2)}`
  );
  return (
    <svg
      className="jp-gpufit-calls"
      role="img"
      aria-label={`Calls a second of ${of.name}: ${formatFigure(value)} now, peak ${formatFigure(most)}`}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
    >
      <polyline points={points.join(' ')} />
    </svg>
  );
}

function inMs(seconds: number): string {
  return `${formatFigure(seconds * 1e3)} ms`;
}
