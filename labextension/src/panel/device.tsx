/** What there is to know of one device: what it does and did, who holds it, and what else runs there. */

import * as React from 'react';

import { Deed, GpufitModel } from '../model/model';
import { freeBytes, idleWords, shortName } from '../words/devices';
import { Claim, Device, Process } from '../words/schema';
import { formatBytes, outOf } from '../words/units';
import { colour } from './colours';
import { Button, Now, Outcome, Sentence, Since } from './common';

const MINUTE = 60; // seconds that the history shows

export function Details(props: {
  device: Device;
  claims: Claim[];
  deeds: (Deed | null)[];
  model: GpufitModel;
}): JSX.Element {
  const { device, claims, deeds, model } = props;
  const { room, parts } = device;
  const known = room.strangers.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0);
  const foreign = parts
    .filter(({ kind }) => kind === 'foreign')
    .reduce((sum, { bytes }) => sum + bytes, 0);
  return (
    <div className="jp-gpufit-details">
      <div className="jp-gpufit-line jp-gpufit-quiet">
        <span className="jp-gpufit-name" title={`${device.name}, ${device.uuid}`}>
          {shortName(device.name)}
        </span>
        {!device.problem && <Activity device={device} />}
      </div>
      {!device.problem && (
        <p className="jp-gpufit-quiet">{outOf(freeBytes(device), device.total)} free for jobs</p>
      )}
      {device.problem && (
        <p className="jp-gpufit-problem">
          <Sentence text={device.problem} />
        </p>
      )}
      <ul>
        {claims.map((claim, i) => (
          <Holder
            key={claim.id}
            device={device}
            claim={claim}
            deed={deeds[i]}
            model={model}
          />
        ))}
        {room.strangers.map(process => (
          <Stranger key={process.pid} process={process} device={device} />
        ))}
        {foreign > known && (
          <li className="jp-gpufit-line jp-gpufit-quiet">
            <Dot kind="foreign" />
            <span className="jp-gpufit-name">somebody, outside the lab</span>
            <span>{formatBytes(foreign - known)}</span>
          </li>
        )}
      </ul>
      {room.held_for && (
        <p className="jp-gpufit-quiet">
          What is free is kept for {room.held_for}.
        </p>
      )}
      {!claims.length && !foreign && !device.problem && (
        <p className="jp-gpufit-quiet">Nobody holds it.</p>
      )}
    </div>
  );
}

/** "61 °C, 312 W" and the last minute as a line. */
function Activity({ device }: { device: Device }): JSX.Element {
  const { temperature, power } = device;
  const heat = temperature === null ? '' : `${temperature} °C`;
  const watts = power === null ? '' : `${Math.round(power)} W`;
  return (
    <>
      <span className="jp-gpufit-number">
        {[heat, watts].filter(Boolean).join(', ')}
      </span>
      <History device={device} />
    </>
  );
}

function History({ device }: { device: Device }): JSX.Element {
  const { history, total } = device;
  const end = history.length ? history[history.length - 1][0] : 0;
  const x = (time: number) => 60 - (60 * (end - time)) / MINUTE;
  const y = (share: number) => 15 - 14 * Math.min(1, share);
  const point = (time: number, share: number) =>
    `${x(time).toFixed(1)},${y(share).toFixed(1)}`;
  const shown = history.filter(([time]) => end - time <= MINUTE);
  const busy = shown.filter(([, percent]) => percent !== null);
  const most = Math.max(0, ...busy.map(([, percent]) => percent ?? 0));
  const line = busy.map(([time, percent]) => point(time, percent! / 100));
  const used = shown.map(([time, , bytes]) => point(time, bytes / total));
  return (
    <svg
      className="jp-gpufit-history"
      viewBox="0 0 60 16"
      preserveAspectRatio="none"
      role="img"
      aria-label={
        busy.length
          ? `Peak ${most} % busy in the last minute`
          : 'How busy it is cannot be read'
      }
    >
      {line.length > 1 && (
        <polygon
          points={`${x(busy[0][0]).toFixed(1)},16 ${line.join(' ')} 60,16`}
        />
      )}
      <polyline className="jp-gpufit-used" points={used.join(' ')} />
      <polyline points={line.join(' ')} />
    </svg>
  );
}

/** A process that is nobody's job: with its number and command, one can ask about it. */
function Stranger(props: { process: Process; device: Device }): JSX.Element {
  const { pid, user, bytes, command } = props.process;
  const idle = idleWords(props.device, React.useContext(Now));
  const amount = bytes === null ? '?' : formatBytes(bytes);
  return (
    <li>
      <div className="jp-gpufit-line jp-gpufit-quiet">
        <Dot kind="foreign" />
        <span className="jp-gpufit-name">{user || 'somebody'}, outside the lab</span>
        <span className="jp-gpufit-number">{[amount, idle].filter(Boolean).join(', ')}</span>
      </div>
      <div className="jp-gpufit-line jp-gpufit-quiet jp-gpufit-under">
        <span className="jp-gpufit-name" title={command}>
          pid {pid}
          {command && <code> {command}</code>}
        </span>
      </div>
    </li>
  );
}

function Holder(props: {
  device: Device;
  claim: Claim;
  deed: Deed | null;
  model: GpufitModel;
}): JSX.Element {
  const { device, claim, deed, model } = props;
  const { id, mine, user, name, label, alone, bytes, since } = claim;
  const idle = idleWords(device, React.useContext(Now));
  const asked = deed?.phase === 'heard';
  return (
    <li>
      <div className="jp-gpufit-line">
        <Dot kind={mine ? 'mine' : 'claim'} user={user} />
        <span className="jp-gpufit-name" title={label}>
          <b>{mine ? 'you' : user}</b> {name}
        </span>
        <span className={idle ? 'jp-gpufit-idle' : 'jp-gpufit-quiet'}>
          {[alone ? 'all of it' : formatBytes(bytes), idle].filter(Boolean).join(', ')}
        </span>
      </div>
      <div className="jp-gpufit-line jp-gpufit-quiet jp-gpufit-under">
        <span className="jp-gpufit-name jp-gpufit-since" title={label}>
          <span>{shortened(label)}</span>
          <span>
            {label && ', '}for <Since time={since} />
          </span>
        </span>
        {!mine && (
          <Button
            kind="link"
            text={asked ? 'Asked' : 'Ask to release'}
            name={`Ask ${user} to release ${name}`}
            why={asked ? `You have asked. The job runs on until ${user} releases it.` : ''}
            busy={deed?.phase === 'sent'}
            onClick={() => void model.ask(id)}
          />
        )}
      </div>
      <Outcome deed={deed} />
    </li>
  );
}

/** The end of a path, the beginning of a command line. */
function shortened(label: string): string {
  return /\.ipynb$/.test(label) ? label.replace(/^.*\//, '') : label;
}

/** The colour that its part of the bar has. */
function Dot(props: { kind: 'mine' | 'claim' | 'foreign'; user?: string }): JSX.Element {
  const { kind, user = '' } = props;
  return (
    <span
      aria-hidden
      className="jp-gpufit-dot"
      data-kind={kind}
      style={colour({ kind, user })}
    />
  );
}
