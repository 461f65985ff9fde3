/** "GPU 1: bert-run 62 %" in the status bar, while a job of mine goes on. */

import { VDomRenderer } from '@jupyterlab/ui-components';
import * as React from 'react';

import { hasEnded, shownState } from './jobs';
import { GpufitModel } from './model';
import { Job, Status } from './schema';
import { deviceWords, ordinal, stepWords } from './units';

export class StatusItem extends VDomRenderer<GpufitModel> {
  constructor(
    model: GpufitModel,
    private onClick: () => void
  ) {
    super(model);
    this.addClass('jp-gpufit-status');
  }

  protected render(): JSX.Element | null {
    const text = this.model.status ? summary(this.model.status) : '';
    return text ? (
      <button
        type="button"
        className="jp-gpufit-link"
        title="Show GPUs and jobs"
        onClick={this.onClick}
      >
        {text}
      </button>
    ) : null;
  }
}

/** The job that has come furthest, in words, and how many there are beside it. */
export function summary(status: Status): string {
  const going = status.jobs.filter(
    job => !hasEnded(job) && job.state !== 'released'
  );
  const first = going.find(job => job.device) ?? going[0];
  if (!first) {
    return '';
  }
  const more = going.length > 1 ? ` (+${going.length - 1})` : '';
  return `${words(first, status)}${more}`;
}

function words(job: Job, status: Status): string {
  const { name, device, progress } = job;
  const state = shownState(job);
  if (device) {
    const { step, total } = progress;
    const share = total ? `${Math.floor((100 * step) / total)} %` : stepWords(step);
    return `${deviceWords(device)}: ${name} ${state === 'running' ? share : state}`;
  }
  const ticket = status.queue.find(ticket => ticket.mine && ticket.job === job.id);
  return ticket
    ? `${name}: ${ordinal(ticket.position)} in the queue`
    : `${name}: ${state}`;
}
