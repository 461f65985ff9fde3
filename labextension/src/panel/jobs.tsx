/** My jobs: those that go on or wait, at the top of the panel, and those that have ended, folded, at its end. */

import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { ENDED, GpufitModel } from '../model/model';
import { commands } from '../words/holds';
import { Claim, Job, Status } from '../words/schema';
import { inOrder } from '../words/states';
import { Card } from './card';
import { Command } from './command';
import { Button, Outcome, Section } from './common';

const MOST_ENDED = 20; // shown; `gpufit jobs` lists all

interface Shown {
  status: Status;
  model: GpufitModel;
  commands: CommandRegistry;
}

export function MyJobs(props: Shown): JSX.Element {
  const { here, mine } = order(props);
  const { model, status } = props;
  const held = commands(status);
  return (
    <Section
      title="My jobs"
      count={mine.length + held.length}
      empty={
        props.status.jobs.length
          ? 'None is running or waiting.'
          : 'None yet. Put `%%gpufit train` on top of a cell to start one.'
      }
    >
      {mine.map(job => card(props, job, job === here))}
      {held.map(hold => (
        <Command key={hold.id} {...hold} deed={model.deed(hold.id)} commands={props.commands} />
      ))}
    </Section>
  );
}

export function Ended(props: Shown): JSX.Element | null {
  const { ended } = order(props);
  const deed = props.model.deed(ENDED);
  if (!ended.length && !deed) {
    return null;
  }
  const left = ended.length - MOST_ENDED;
  return (
    <Section
      title="Ended"
      count={ended.length}
      empty="There are none."
      folded
      beside={
        ended.length > 0 && (
          <Button
            kind="link"
            text="Remove all"
            name="Remove all jobs that have ended"
            why=""
            busy={deed?.phase === 'sent'}
            onClick={() => void props.commands.execute('gpufit:remove', { all: true })}
          />
        )
      }
      below={<Outcome deed={deed} />}
    >
      {ended.slice(0, MOST_ENDED).map(job => card(props, job, false))}
      {left > 0 && (
        <li className="jp-gpufit-quiet">
          And {left} more that have ended: <code>gpufit jobs</code> lists all.
        </li>
      )}
    </Section>
  );
}

function order({ status, model }: Shown): ReturnType<typeof inOrder> {
  return inOrder(status.jobs, job => model.front.started(job));
}

function card({ status, model, commands }: Shown, job: Job, here: boolean): JSX.Element {
  return (
    <Card
      key={job.id}
      job={job}
      deed={model.deed(job.id)}
      ticket={status.queue.find(({ mine, job: id }) => mine && id === job.id)}
      askers={askers(status.claims, job)}
      commands={commands}
      model={model}
      here={here}
    />
  );
}

/** Who would like what this job holds. */
function askers(claims: Claim[], job: Job): string {
  const mine = claims.filter(claim => claim.mine && claim.job === job.id);
  return [...new Set(mine.flatMap(claim => claim.asked_by))].join(', ');
}
