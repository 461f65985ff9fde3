/** A card per device: its memory in parts, how busy it is and was, and who holds it. */

import * as React from 'react';

import { Deed, GpufitModel } from '../model/model';
import { Claim, Device, Part, Status } from '../words/schema';
import { deviceWords, formatBytes } from '../words/units';
import { Button, memo, Outcome, Section, Sentence, Since } from './common';

const MINUTE = 60; // seconds that the history shows
const COLOURS = 7; // of JupyterLab's for other users

export function Devices(props: {
  status: Status;
  model: GpufitModel;
}): JSX.Element {
  const { devices, claims } = props.status;
  return (
    <Section
      title="Devices"
      count={devices.length}
      empty="None can be seen here."
    >
      {devices.map(device => {
        const held = claims.filter(({ devices }) =>
          devices.includes(device.label)
        );
        return (
          <Card
            key={device.uuid}
            device={device}
            claims={held}
            deeds={held.map(({ id }) => props.model.deed(id))}
            model={props.model}
          />
        );
      })}
    </Section>
  );
}

const Card = memo(
  (props: {
    device: Device;
    claims: Claim[];
    deeds: (Deed | null)[];
    model: GpufitModel;
  }): JSX.Element => {
    const { device, claims, deeds, model } = props;
    const strangers = device.parts.filter(({ kind }) => kind === 'foreign');
    return (
      <li className="jp-gpufit-card jp-gpufit-device">
        <div className="jp-gpufit-line">
          <span className="jp-gpufit-label">{deviceWords(device.label)}</span>
          <span
            className="jp-gpufit-name jp-gpufit-quiet"
            title={`${device.name}, ${device.uuid}`}
          >
            {shortName(device.name)}
          </span>
          <Activity device={device} />
        </div>
        {device.problem ? (
          <p className="jp-gpufit-problem">
            <Sentence text={device.problem} />
          </p>
        ) : (
          <Memory device={device} />
        )}
        <ul>
          {claims.map((claim, i) => (
            <Holder key={claim.id} claim={claim} deed={deeds[i]} model={model} />
          ))}
          {strangers.map((part, i) => (
            <li key={i} className="jp-gpufit-line jp-gpufit-quiet">
              <Dot part={part} />
              <span className="jp-gpufit-name">
                {part.user || 'somebody'}, outside the lab
              </span>
              <span>{formatBytes(part.bytes)}</span>
            </li>
          ))}
        </ul>
        {device.room.held_for && (
          <p className="jp-gpufit-quiet">
            What is free is kept for {device.room.held_for}.
          </p>
        )}
      </li>
    );
  }
);

/** "H100 80GB", "RTX 4090": there is room for so much. */
function shortName(name: string): string {
  return name.replace(/^NVIDIA (GeForce )?/, '').replace(/ HBM\d\w*$/, '');
}

/** "37 % 61 °C" and the last minute as a line; each has its place, whether the device tells it or not. */
function Activity({ device }: { device: Device }): JSX.Element {
  const { utilisation, temperature } = device;
  return (
    <>
      <History device={device} />
      <span className="jp-gpufit-number" title="Time in which it computed">
        {utilisation === null ? '' : `${utilisation} %`}
      </span>
      <span className="jp-gpufit-number" title="Temperature">
        {temperature === null ? '' : `${temperature} °C`}
      </span>
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
          ? `Busy at most ${most} % in the last minute`
          : 'How busy it is, it does not tell'
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

function Memory({ device }: { device: Device }): JSX.Element {
  const { label, total, parts } = device;
  const free = parts.find(({ kind }) => kind === 'free')?.bytes ?? 0;
  return (
    <div className="jp-gpufit-line">
      <div
        role="meter"
        aria-label={`Memory of ${deviceWords(label)}`}
        aria-valuemin={0}
        aria-valuemax={total}
        aria-valuenow={total - free}
        aria-valuetext={parts.map(partWords).join(', ')}
        className="jp-gpufit-bar"
      >
        {parts.map((part, i) => (
          <div
            key={i}
            data-kind={part.kind}
            title={partWords(part)}
            style={{ ...colour(part), width: `${(100 * part.bytes) / total}%` }}
          />
        ))}
      </div>
      <span
        className="jp-gpufit-quiet jp-gpufit-free"
        title={`${formatBytes(free)} of ${formatBytes(total)} are free for jobs`}
      >
        {formatBytes(free)} free
      </span>
    </div>
  );
}

/** "ada 12.0 GiB", "kept back 8.0 GiB". */
function partWords({ kind, user, bytes }: Part): string {
  const who = {
    mine: 'mine',
    claim: user,
    foreign: `${user || 'somebody'} outside the lab`,
    reserve: 'kept back',
    free: 'free'
  }[kind];
  return `${who} ${formatBytes(bytes)}`;
}

function Holder(props: {
  claim: Claim;
  deed: Deed | null;
  model: GpufitModel;
}): JSX.Element {
  const { claim, deed, model } = props;
  const { id, mine, user, name, label, alone, bytes, since } = claim;
  const kind = mine ? 'mine' : 'claim';
  const asked = deed?.phase === 'heard';
  return (
    <li>
      <div className="jp-gpufit-line">
        <Dot part={{ kind, user, job: '', bytes }} />
        <span className="jp-gpufit-name" title={label}>
          <b>{mine ? 'you' : user}</b> {name}
        </span>
        <span className="jp-gpufit-quiet">
          {alone ? 'all of it' : formatBytes(bytes)}
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
            why={asked ? 'You have asked. Nothing acts on it by itself.' : ''}
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
function Dot({ part }: { part: Part }): JSX.Element {
  return (
    <span
      aria-hidden
      className="jp-gpufit-dot"
      data-kind={part.kind}
      style={colour(part)}
    />
  );
}

const colours = new Map<string, number>(); // of users, as they were first seen: it stays while the page does

function colour({ kind, user }: Part): React.CSSProperties {
  if (kind !== 'claim') {
    return {}; // the style sheet's
  }
  if (!colours.has(user)) {
    colours.set(user, (colours.size % COLOURS) + 1);
  }
  return { background: `var(--jp-collaborator-color${colours.get(user)})` };
}
