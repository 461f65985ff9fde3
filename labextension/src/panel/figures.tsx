/** How far a job is, what it takes, and for how long it has gone on. */

import * as React from 'react';

import { Job, JobMemory, Progress } from '../words/schema';
import { ranFor } from '../words/states';
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatFigure,
  formatMoment,
  formatPace,
  outOf,
  stepWords
} from '../words/units';
import { Figure, Now, Since } from './common';

const INEXACT =
  "Its checkpoint is not exact: in the middle of an epoch, the library's own resume goes on from there.";

/** Each figure has its place whether it is known yet or not: nothing moves when it comes. */
export function Figures({ job }: { job: Job }): JSX.Element {
  const { loss, mfu, memory, checkpoint, progress } = job;
  return (
    <>
      <Steps progress={progress} />
      <dl className="jp-gpufit-figures">
        <Figure name={loss?.name ?? 'loss'}>
          {loss && formatFigure(loss.value)}
        </Figure>
        <Figure name="memory">{memory && <Taken memory={memory} />}</Figure>
        <Figure name="MFU">
          {mfu !== null && <Share of={mfu} foreseen={job.mfu_foreseen} />}
        </Figure>
        <Figure name="peak">{memory && <Peak memory={memory} />}</Figure>
        {memory !== null && memory.host > 0 && (
          <Figure name="on the host">
            <OnHost memory={memory} />
          </Figure>
        )}
        <Figure name="ran">
          <Ran job={job} />
        </Figure>
        <Figure name="saved">
          {checkpoint && (
            <span title={`${formatBytes(checkpoint.bytes)} on disk`}>
              {stepWords(checkpoint.step)}, <Since time={checkpoint.time} brief /> ago
            </span>
          )}
        </Figure>
      </dl>
      {checkpoint?.exact === false && (
        <p className="jp-gpufit-quiet">{INEXACT}</p>
      )}
    </>
  );
}

/** On whatever device, without the time in which it waited; a move and a release do not begin it anew. */
function Ran({ job }: { job: Job }): JSX.Element {
  const now = React.useContext(Now);
  const since = job.began === null ? '' : `since ${formatMoment(job.began, now)}`;
  const words = formatDuration(ranFor(job, now));
  return <span title={since}>{words}</span>;
}

/** What it uses of the card's arithmetic, beside what was foreseen where anybody could tell. */
function Share(props: { of: number; foreseen: number | null }): JSX.Element {
  const percent = Math.round(100 * props.of);
  if (props.foreseen === null) {
    return <span>{`${percent} %`}</span>;
  }
  const before = Math.round(100 * props.foreseen);
  const title = `${percent} %; ${before} % were foreseen`;
  return <span title={title}>{`${percent} / ${before} %`}</span>;
}

function Taken({ memory }: { memory: JobMemory }): JSX.Element {
  const { used, peak, estimate } = memory;
  const title = `${formatBytes(used)} now, peak ${formatBytes(peak)}`;
  return estimate === null ? (
    <span title={title}>{formatBytes(used)}</span>
  ) : (
    <span title={`${title}, estimated ${formatBytes(estimate)}`} data-over={used > estimate}>
      {outOf(used, estimate)}
    </span>
  );
}

function Peak({ memory: { peak, estimate } }: { memory: JobMemory }): JSX.Element {
  return <span data-over={estimate !== null && peak > estimate}>{formatBytes(peak)}</span>;
}

/** What its plan has put there, and how fast it goes there and back. */
function OnHost({ memory }: { memory: JobMemory }): JSX.Element {
  const { host, link } = memory;
  const pace = link === null ? '' : `, ${formatBytes(link)}/s`;
  const title = link === null ? '' : 'the pace: there and back';
  return (
    <span title={title}>
      {formatBytes(host)}
      {pace}
    </span>
  );
}

function Steps({ progress }: { progress: Progress }): JSX.Element {
  const { step, total, per_second, left } = progress;
  const share = total ? Math.min(100, (100 * step) / total) : null;
  const pace = per_second ? `, ${formatPace(per_second)}` : '';
  const words = stepWords(step) + (total ? ` of ${formatCount(total)}` : '');
  return (
    <>
      <div
        role="progressbar"
        aria-label="Progress"
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={share === null ? undefined : Math.floor(share)}
        aria-valuetext={words}
        className="jp-gpufit-progress"
        data-endless={share === null}
      >
        <div style={{ width: `${share ?? 0}%` }} />
      </div>
      <div className="jp-gpufit-line jp-gpufit-quiet">
        <span className="jp-gpufit-name">
          {words}
          {pace}
        </span>
        <span className="jp-gpufit-number">
          {left !== null && `${formatDuration(left)} left`}
        </span>
      </div>
    </>
  );
}
