/** A line per device: who has what of its memory, what of that is used, how busy it is; unfolded, all that is known. */

import * as React from 'react';

import { Deed, GpufitModel } from '../model/model';
import { freeBytes, idleWords, partWords } from '../words/devices';
import { Claim, Device, Host, Status } from '../words/schema';
import { deviceWords, formatBytes } from '../words/units';
import { colour } from './colours';
import { Arrow, memo, Now, Section } from './common';
import { Details } from './device';

/** The machine itself, below its devices: its memory, and how busy its processors are. */
const HostLine = memo(({ total, free, busy, processors }: Host): JSX.Element => {
  return (
    <li className="jp-gpufit-device">
      <div className="jp-gpufit-row jp-gpufit-host">
        <span className="jp-gpufit-host-name" title={`${processors} processors`}>
          Host
        </span>
        <div
          role="meter"
          aria-label="Memory of the host"
          aria-valuemin={0}
          aria-valuemax={total}
          aria-valuenow={total - free}
          aria-valuetext={`${formatBytes(total - free)} of ${formatBytes(total)} are used`}
          className="jp-gpufit-bar"
        >
          <div data-kind="host" style={{ width: `${100 * (1 - free / total)}%` }} />
          <div data-kind="free" />
        </div>
        <span
          className="jp-gpufit-quiet jp-gpufit-free"
          title={`${formatBytes(free)} of the machine's ${formatBytes(total)} are free for programs`}
        >
          {formatBytes(free)} free
        </span>
        <span className="jp-gpufit-number" title={`Time in which its ${processors} processors computed`}>
          {Math.round(busy)} %
        </span>
      </div>
    </li>
  );
});

export function Devices(props: {
  status: Status;
  model: GpufitModel;
}): JSX.Element {
  const { devices, claims, host } = props.status;
  return (
    <Section
      title="Devices"
      count={devices.length}
      empty="None can be seen here. `gpufit doctor` in a terminal says why."
    >
      {devices.map(device => {
        const held = claims.filter(({ devices }) =>
          devices.includes(device.label)
        );
        return (
          <OneDevice
            key={device.uuid}
            device={device}
            claims={held}
            deeds={held.map(({ id }) => props.model.deed(id))}
            model={props.model}
          />
        );
      })}
      {host && <HostLine {...host} />}
    </Section>
  );
}

const OneDevice = memo(
  (props: {
    device: Device;
    claims: Claim[];
    deeds: (Deed | null)[];
    model: GpufitModel;
  }): JSX.Element => {
    const { device } = props;
    const [open, setOpen] = React.useState(false);
    const label = deviceWords(device.label);
    const problem = device.problem !== '';
    return (
      <li className="jp-gpufit-device" data-device={device.label}>
        {/* The whole line can be clicked; by keyboard, its button. */}
        <div className="jp-gpufit-row" onClick={() => setOpen(!open)}>
          <button
            type="button"
            className="jp-gpufit-fold"
            aria-expanded={open}
            aria-label={`Details of ${label}`}
          >
            <Arrow open={open} />
            {label}
          </button>
          {problem ? (
            <span className="jp-gpufit-name jp-gpufit-problem" title={device.problem}>
              {device.problem}
            </span>
          ) : (
            <>
              <Memory device={device} />
              <Busy device={device} />
            </>
          )}
        </div>
        {open && <Details {...props} />}
      </li>
    );
  }
);

/** "37 %"; or, where somebody holds it and computes nothing, for how long. */
function Busy({ device }: { device: Device }): JSX.Element {
  const idle = idleWords(device, React.useContext(Now));
  const { utilisation } = device;
  return idle ? (
    <span
      className="jp-gpufit-number jp-gpufit-idle"
      title="It is held, and at every look it computed nothing."
    >
      {idle}
    </span>
  ) : (
    <span className="jp-gpufit-number" title="Time in which it computed">
      {utilisation === null ? '' : `${utilisation} %`}
    </span>
  );
}

function Memory({ device }: { device: Device }): JSX.Element {
  const { label, total, parts } = device;
  const free = freeBytes(device);
  const idle = idleWords(device, React.useContext(Now)) !== '';
  return (
    <>
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
            data-known={part.used !== null}
            title={partWords(part)}
            style={{ ...colour(part), width: `${(100 * part.bytes) / total}%` }}
          >
            {part.used !== null && (
              <div
                className="jp-gpufit-unused"
                style={{ width: `${100 - (100 * part.used) / part.bytes}%` }}
              />
            )}
          </div>
        ))}
      </div>
      {/* Who holds it without computing is worth more than what is left. */}
      {!idle && (
        <span
          className="jp-gpufit-quiet jp-gpufit-free"
          title={`${formatBytes(free)} of ${formatBytes(total)} are free for jobs`}
        >
          {formatBytes(free)} free
        </span>
      )}
    </>
  );
}
