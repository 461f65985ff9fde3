/** Shows what the model knows, in the reader's order: my jobs, the queue, the devices, what has ended. */

import { VDomRenderer } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { GpufitModel } from '../model/model';
import { Status } from '../words/schema';
import { Notice, Now, Sentence, useClock } from './common';
import { Devices } from './devices';
import { Ended, MyJobs } from './jobs';
import { Queue } from './queue';

export class StatusView extends VDomRenderer<GpufitModel> {
  constructor(
    model: GpufitModel,
    private commands: CommandRegistry
  ) {
    super(model);
  }

  protected render(): JSX.Element {
    const { model, commands } = this;
    const { status, trouble } = model;
    return (
      <>
        <div className="jp-gpufit-header">
          <h2>jupyter_gpufit</h2>
          <span className="jp-gpufit-quiet">{status?.version}</span>
        </div>
        <Notice text={trouble} />
        {status && (
          <Reading
            status={status}
            stale={trouble !== ''}
            model={model}
            commands={commands}
          />
        )}
        {!status && !trouble && (
          <p className="jp-gpufit-quiet">Reading the devices…</p>
        )}
      </>
    );
  }
}

/** "Claims are private to you", and the rest when it is asked for: it says the same every day. */
function Remark({ text }: { text: string }): JSX.Element {
  const [, head, rest] = /^(.*?)[:.] (.*)$/.exec(text) ?? [null, text, ''];
  return rest ? (
    <details className="jp-gpufit-remark">
      <summary>
        <Sentence text={head} />
      </summary>
      <Sentence text={rest} />
    </details>
  ) : (
    <p className="jp-gpufit-remark">
      <Sentence text={text} />
    </p>
  );
}

function Reading(props: {
  status: Status;
  stale: boolean;
  model: GpufitModel;
  commands: CommandRegistry;
}): JSX.Element {
  const { status, stale, model, commands } = props;
  return (
    <Now.Provider value={useClock(status.time)}>
      <div className={stale ? 'jp-gpufit-stale' : ''}>
        <Notice text={status.problem} />
        {status.remarks.map(remark => (
          <Remark key={remark} text={remark} />
        ))}
        <MyJobs status={status} model={model} commands={commands} />
        <Queue queue={status.queue} />
        <Devices status={status} model={model} />
        <Ended status={status} model={model} commands={commands} />
      </div>
    </Now.Provider>
  );
}
