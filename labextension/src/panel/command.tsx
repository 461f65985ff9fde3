/** A command of `gpufit run`: where it runs or why it waits, and how to end it. */

import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { Deed } from '../model/model';
import { Hold } from '../words/holds';
import { Button, memo, Outcome, Sentence, Since } from './common';

export const Command = memo(
  (props: Hold & { deed: Deed | null; commands: CommandRegistry }): JSX.Element => {
    const { id, name, line, state, since, device, waits, askers, deed, commands } = props;
    return (
      <li className="jp-gpufit-card jp-gpufit-job" aria-label={name}>
        <div className="jp-gpufit-line">
          <span className="jp-gpufit-name">
            <b>{name}</b>
          </span>
          <span className="jp-gpufit-state" data-state={state}>
            {state}
            {device && ` on ${device}`}
          </span>
        </div>
        <div className="jp-gpufit-line jp-gpufit-quiet">
          <code className="jp-gpufit-name" title={line}>
            {line}
          </code>
          <span className="jp-gpufit-number">
            <Since time={since} />
          </span>
        </div>
        {waits && (
          <p className="jp-gpufit-reason">
            <Sentence text={waits} />
          </p>
        )}
        {askers && <p className="jp-gpufit-asked">{askers} would like this device.</p>}
        <div className="jp-gpufit-buttons" role="group" aria-label={`Do with ${name}`}>
          <Button
            text="End"
            name={`End ${name}`}
            why=""
            busy={deed?.phase === 'sent'}
            kind="danger"
            onClick={() => void commands.execute('gpufit:end', { claim: id, name })}
          />
        </div>
        <Outcome deed={deed} />
      </li>
    );
  }
);
