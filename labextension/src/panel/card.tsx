/** One of my jobs: what it does, how far it is, what it takes, and its buttons. */

import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { Deed, GpufitModel } from '../model/model';
import { GOING, Job, Ticket } from '../words/schema';
import { endWords, hasEnded, hasRun, placed, shownState } from '../words/states';
import { ordinal } from '../words/units';
import { Buttons } from './buttons';
import { Calls, TryIt } from './calls';
import { Arrow, memo, Now, Outcome, Sentence, Since } from './common';
import { Curves } from './curves';
import { Figures } from './figures';

export const Card = memo(
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
          <span className="jp-gpufit-name jp-gpufit-label">
            <button
              type="button"
              className="jp-gpufit-link"
              title={`Open the page of this run (${job.id})`}
              onClick={() => void commands.execute('gpufit:run', { job: job.id, name: job.name })}
            >
              {job.name}
            </button>
          </span>
          <State job={job} />
        </div>
        <Origin job={job} here={here} commands={commands} />
        {hasEnded(job) && <End job={job} />}
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

/** When it was, for how long, how far it came: so one of several of a name is told from the others. */
function End({ job }: { job: Job }): JSX.Element {
  const now = React.useContext(Now);
  return <p className="jp-gpufit-quiet">{endWords(job, now)}</p>;
}

function State({ job }: { job: Job }): JSX.Element {
  const state = shownState(job);
  return (
    <span className="jp-gpufit-state" data-state={job.state}>
      {job.device && !hasEnded(job) ? placed(state, job.device) : state}
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
      {!GOING.has(job.state) && (
        <span className="jp-gpufit-number">
          <Since time={job.since} />
          {hasEnded(job) && ' ago'}
        </span>
      )}
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

