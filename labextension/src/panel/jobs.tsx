/** My jobs: what each does, how far it is, what it takes, and its buttons. */

import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { Deed, GpufitModel } from '../model/model';
import { Claim, Job, JobMemory, Progress, Status, Ticket } from '../words/schema';
import { hasEnded, hasRun, shownState } from '../words/states';
import {
  deviceWords,
  formatBytes,
  formatCount,
  formatDuration,
  formatFigure,
  formatPace,
  ordinal,
  outOf,
  stepWords
} from '../words/units';
import { Buttons } from './buttons';
import { Calls, TryIt } from './calls';
import { Arrow, Figure, memo, Outcome, Section, Sentence, Since } from './common';
import { Curves } from './curves';

const MOST_ENDED = 20; // shown; `gpufit jobs` lists all
const INEXACT =
  "Its checkpoint is not exact: in the middle of an epoch, the library's own resume goes on from there.";

export function Jobs(props: {
  status: Status;
  model: GpufitModel;
  commands: CommandRegistry;
}): JSX.Element {
  const { status, model, commands } = props;
  const newest = [...status.jobs].reverse();
  // What one works on comes first, also when it has just ended.
  const here = newest.find(job => model.front.started(job));
  const others = newest.filter(job => job !== here);
  const ended = others.filter(hasEnded);
  const left = ended.length - MOST_ENDED;
  const shown = [
    ...(here ? [here] : []),
    ...others.filter(job => !hasEnded(job)),
    ...ended.slice(0, MOST_ENDED)
  ];
  return (
    <Section
      title="My jobs"
      count={status.jobs.length}
      empty="None yet. Put `%%gpufit train` on top of a cell to start one."
    >
      {shown.map(job => (
        <Card
          key={job.id}
          job={job}
          deed={model.deed(job.id)}
          ticket={status.queue.find(({ mine, job: id }) => mine && id === job.id)}
          askers={askers(status.claims, job)}
          commands={commands}
          model={model}
          here={job === here}
        />
      ))}
      {left > 0 && (
        <li className="jp-gpufit-quiet">
          And {left} more that have ended: <code>gpufit jobs</code> lists all.
        </li>
      )}
    </Section>
  );
}

/** Who would like what this job holds. */
function askers(claims: Claim[], job: Job): string {
  const mine = claims.filter(claim => claim.mine && claim.job === job.id);
  return [...new Set(mine.flatMap(claim => claim.asked_by))].join(', ');
}

const Card = memo(
  (props: {
    job: Job;
    deed: Deed | null;
    ticket: Ticket | undefined; // its place in the queue
    askers: string;
    commands: CommandRegistry;
    model: GpufitModel;
    here: boolean; // it is the newest of the notebook in front
  }): JSX.Element => {
    const { job, deed, ticket, askers, commands, model, here } = props;
    // The job's own words are from when it last looked: how long others hold what it wants goes on.
    const reason = ticket
      ? `${ordinal(ticket.position)} in the queue: ${ticket.reason}`
      : job.reason;
    return (
      <li
        className="jp-gpufit-card jp-gpufit-job"
        aria-label={job.name}
        data-job={job.id}
        data-here={here}
      >
        <div className="jp-gpufit-line">
          <span className="jp-gpufit-name jp-gpufit-label" title={job.id}>
            {job.name}
          </span>
          <State job={job} />
        </div>
        <Origin job={job} here={here} commands={commands} />
        {reason && (
          <p className="jp-gpufit-reason">
            <Sentence text={reason} />
          </p>
        )}
        {job.kind === 'model' && job.calls && (
          <Calls job={job} calls={job.calls} />
        )}
        {job.kind !== 'model' && hasRun(job) && <Figures job={job} />}
        {job.kind !== 'model' && (hasRun(job) || job.memory) && (
          <Drawn job={job} model={model} here={here} />
        )}
        {askers && (
          <p className="jp-gpufit-asked">{askers} would like this device.</p>
        )}
        <Buttons job={job} deed={deed} commands={commands}>
          {job.kind === 'model' && <TryIt job={job} deed={deed} model={model} />}
        </Buttons>
        <Outcome deed={deed} />
      </li>
    );
  }
);

function State({ job }: { job: Job }): JSX.Element {
  const where = job.device && !hasEnded(job) ? deviceWords(job.device) : '';
  return (
    <span className="jp-gpufit-state" data-state={job.state}>
      {shownState(job)}
      {where && ` on ${where}`}
    </span>
  );
}

/** Which notebook it comes from, and how long it has been so. */
function Origin(props: {
  job: Job;
  here: boolean;
  commands: CommandRegistry;
}): JSX.Element {
  const { job, here, commands } = props;
  const file = job.notebook.replace(/^.*\//, '');
  const open = () =>
    void commands.execute('gpufit:notebook', { path: job.notebook });
  return (
    <div className="jp-gpufit-line jp-gpufit-quiet">
      <span className="jp-gpufit-name">
        {file && (
          <button
            type="button"
            className="jp-gpufit-link"
            title={job.notebook}
            onClick={open}
          >
            {file}
          </button>
        )}
        {here && (file ? ', this notebook' : 'this notebook')}
      </span>
      <span className="jp-gpufit-number">
        <Since time={job.since} />
        {hasEnded(job) && ' ago'}
      </span>
    </div>
  );
}

/** Its curves: open for the notebook in front, and for others when they are asked for. */
function Drawn(props: {
  job: Job;
  model: GpufitModel;
  here: boolean;
}): JSX.Element {
  const { job, model, here } = props;
  const [chosen, setChosen] = React.useState<boolean | null>(null);
  const open = chosen ?? here;
  return (
    <>
      <button
        type="button"
        className="jp-gpufit-fold jp-gpufit-quiet"
        aria-expanded={open}
        aria-label={`Curves of ${job.name}`}
        onClick={() => setChosen(!open)}
      >
        <Arrow open={open} />
        Curves
      </button>
      {open && <Curves job={job} model={model} />}
    </>
  );
}

/** Each figure has its place whether it is known yet or not: nothing moves when it comes. */
function Figures({ job }: { job: Job }): JSX.Element {
  const { loss, mfu, memory, checkpoint, progress } = job;
  return (
    <>
      <Steps progress={progress} />
      <dl className="jp-gpufit-figures">
        <Figure name={loss?.name ?? 'loss'}>
          {loss && formatFigure(loss.value)}
        </Figure>
        <Figure name="memory">{memory && <Taken memory={memory} />}</Figure>
        <Figure name="MFU">{mfu !== null && `${Math.round(100 * mfu)} %`}</Figure>
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

function Taken({ memory }: { memory: JobMemory }): JSX.Element {
  const { used, peak, estimate } = memory;
  const title = `${formatBytes(used)} now, ${formatBytes(peak)} at most`;
  return estimate === null ? (
    <span title={title}>{formatBytes(used)}</span>
  ) : (
    <span
      title={`${title}, estimated ${formatBytes(estimate)}`}
      data-over={peak > estimate}
    >
      {outOf(used, estimate)}
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
