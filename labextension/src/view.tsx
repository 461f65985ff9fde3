/** Shows what the model knows. Names and sentences come from others' processes: React escapes them, and nothing here undoes it. */

import { VDomRenderer } from '@jupyterlab/ui-components';
import * as React from 'react';

import { Device, Job, Process, Status } from './api';
import { GpufitModel } from './model';
import { formatBytes, formatDuration } from './units';

const MOST_JOBS = 20; // shown; `gpufit jobs` lists all
const ENDED = new Set(['done', 'failed', 'stopped', 'lost']);

export class StatusView extends VDomRenderer<GpufitModel> {
  protected render(): JSX.Element {
    const { status, trouble } = this.model;
    return (
      <>
        <Header version={status?.version ?? ''} />
        <Notice text={trouble} />
        {status && <Reading status={status} stale={trouble !== ''} />}
        {!status && !trouble && (
          <p className="jp-gpufit-quiet">Reading the devices…</p>
        )}
      </>
    );
  }
}

function Header({ version }: { version: string }): JSX.Element {
  return (
    <header className="jp-gpufit-header">
      <h2>jupyter_gpufit</h2>
      <span className="jp-gpufit-quiet">{version}</span>
    </header>
  );
}

/** A screen reader speaks it when it changes, so the element is there before there is anything to say. */
function Notice({ text }: { text: string }): JSX.Element {
  return (
    <div role="status" className={text && 'jp-gpufit-notice'}>
      <Sentence text={text} />
    </div>
  );
}

/** Our sentences set what can be typed between backticks. */
function Sentence({ text }: { text: string }): JSX.Element {
  return (
    <>
      {text
        .split('`')
        .map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part))}
    </>
  );
}

function Reading(props: { status: Status; stale: boolean }): JSX.Element {
  const { devices, jobs, problem, time } = props.status;
  return (
    <div className={props.stale ? 'jp-gpufit-stale' : ''}>
      <Notice text={problem} />
      <Section title="Devices">
        {devices.map(device => (
          <DeviceItem key={device.uuid} device={device} />
        ))}
      </Section>
      <Section
        title="My jobs"
        empty="None yet. Put %%gpufit train on top of a cell to start one."
      >
        {foremost(jobs).map(job => (
          <JobItem key={job.id} job={job} now={time} />
        ))}
      </Section>
    </div>
  );
}

function Section(props: {
  title: string;
  empty?: string;
  children: JSX.Element[];
}): JSX.Element {
  const { title, empty = 'None.', children } = props;
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      {children.length > 0 ? (
        <ul>{children}</ul>
      ) : (
        <p className="jp-gpufit-quiet">{empty}</p>
      )}
    </section>
  );
}

function DeviceItem({ device }: { device: Device }): JSX.Element {
  return (
    <li className="jp-gpufit-device">
      <div className="jp-gpufit-line">
        <span className="jp-gpufit-label">{device.label}</span>
        <span className="jp-gpufit-name" title={device.uuid}>
          {device.name}
        </span>
        <span className="jp-gpufit-quiet">{activity(device)}</span>
      </div>
      {device.problem ? (
        <p className="jp-gpufit-problem">
          <Sentence text={device.problem} />
        </p>
      ) : (
        <Memory device={device} />
      )}
      {device.processes.length > 0 && (
        <p className="jp-gpufit-quiet">{holders(device.processes)}</p>
      )}
    </li>
  );
}

function Memory({ device }: { device: Device }): JSX.Element {
  const { label, total, free, reserved } = device;
  const used = total - reserved - free;
  const text = `${formatBytes(used)} of ${formatBytes(total)} used`;
  const share = total > 0 ? (100 * used) / total : 0;
  return (
    <>
      <div
        role="meter"
        aria-label={`Memory of ${label}`}
        aria-valuemin={0}
        aria-valuemax={total}
        aria-valuenow={used}
        aria-valuetext={text}
        className={`jp-gpufit-bar${share > 90 ? ' jp-gpufit-full' : ''}`}
      >
        <div style={{ width: `${share}%` }} />
      </div>
      <span className="jp-gpufit-quiet">{text}</span>
    </>
  );
}

function JobItem({ job, now }: { job: Job; now: number }): JSX.Element {
  return (
    <li className="jp-gpufit-job">
      <div className="jp-gpufit-line">
        <span className="jp-gpufit-name" title={job.id}>
          {job.name}
        </span>
        <span className="jp-gpufit-state" data-state={job.state}>
          {job.state}
        </span>
      </div>
      <p className="jp-gpufit-quiet">{progress(job, now)}</p>
      {job.reason && (
        <p className="jp-gpufit-quiet">
          <Sentence text={job.reason} />
        </p>
      )}
    </li>
  );
}

/** The jobs to show: what goes on before what has ended, the newest first. */
function foremost(jobs: Job[]): Job[] {
  const newest = [...jobs].reverse();
  const going = newest.filter(job => !ENDED.has(job.state));
  const ended = newest.filter(job => ENDED.has(job.state));
  return [...going, ...ended].slice(0, MOST_JOBS);
}

/** "cpu:0, step 1200, for 3 min 5 s", or "2 h 4 min ago" when it has ended. */
function progress(job: Job, now: number): string {
  const { device, since, state, step } = job;
  const time = formatDuration(Math.max(0, now - since));
  return [
    ...(device ? [device] : []),
    ...(step > 0 ? [`step ${step}`] : []),
    ENDED.has(state) ? `${time} ago` : `for ${time}`
  ].join(', ');
}

/** "37 % busy, 61 °C", or as much of it as the device tells. */
function activity({ utilisation, temperature }: Device): string {
  const busy = utilisation === null ? [] : [`${utilisation} % busy`];
  const warm = temperature === null ? [] : [`${temperature} °C`];
  return [...busy, ...warm].join(', ');
}

/** "ada 10.0 GiB, bob": who holds memory, and how much where the driver says. */
function holders(processes: Process[]): string {
  const held = new Map<string, number>();
  for (const { user, bytes } of processes) {
    held.set(user, (held.get(user) ?? 0) + (bytes ?? 0));
  }
  return [...held]
    .map(([user, bytes]) => (bytes ? `${user} ${formatBytes(bytes)}` : user))
    .join(', ');
}
