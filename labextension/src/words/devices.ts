/** What a device's figures mean to who reads them; pure. */

import { Device, Part } from './schema';
import { formatBytes, formatDuration } from './units';

const QUIET = 300; // seconds without computing from which on it is said: an evaluation, a download may take as long

/** "0 % for 20 min": somebody holds it and computes nothing; empty: it computes, or nobody has looked for so long. */
export function idleWords({ idle_since }: Device, now: number): string {
  const seconds = idle_since === null ? 0 : now - idle_since;
  return seconds < QUIET ? '' : `0 % for ${formatDuration(seconds)}`;
}

/** "ada 12.0 GiB, uses 3.1", "kept back 8.0 GiB". */
export function partWords({ kind, user, bytes, used }: Part): string {
  const who = {
    mine: 'mine',
    claim: user,
    foreign: `${user || 'somebody'} outside the lab`,
    reserve: 'kept back',
    free: 'free'
  }[kind];
  const uses = used === null ? '' : ` (uses ${formatBytes(used)})`;
  return `${who} ${formatBytes(bytes)}${uses}`;
}

/** How many bytes jobs can still have of it. */
export function freeBytes({ parts }: Device): number {
  return parts.find(({ kind }) => kind === 'free')?.bytes ?? 0;
}

/** "H100 80GB", "RTX 4090": there is room for so much. */
export function shortName(name: string): string {
  return name.replace(/^NVIDIA (GeForce )?/, '').replace(/ HBM\d\w*$/, '');
}
