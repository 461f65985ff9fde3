/** What the devices did in the last minute: a message brings what is new of it. */

import { Device, Status } from './schema';

type History = Device['history'];

const SAMPLES = 60; // kept of each device, as the server does

/** A status whose histories hold only what is newer, with what was known before. */
export function continued(before: Status | null, status: Status): Status {
  const known = new Map(before?.devices.map(({ uuid, history }) => [uuid, history]));
  const devices = status.devices.map(device => ({
    ...device,
    history: joined(known.get(device.uuid) ?? [], device.history)
  }));
  return { ...status, devices };
}

/** What is new counts where both tell of the same time, and where a clock was set back. */
function joined(old: History, fresh: History): History {
  const begins = fresh.length > 0 ? fresh[0][0] : Infinity;
  return [...old.filter(([time]) => time < begins), ...fresh].slice(-SAMPLES);
}
