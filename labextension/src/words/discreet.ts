/** Hides what the reader does not want on the screen of other users; pure. */

import { Claim, Status, Ticket } from './schema';

/** What to show of others: who and what; only who; or neither. */
export type Others = 'all' | 'names' | 'none';

// Sentences name other users; by its kind, a reason can be told without.
const REASONS: Record<string, string> = {
  held: 'The devices that it could use are held.',
  strangers: 'Processes outside the lab hold what it needs.',
  turn: 'It is not its turn yet.',
  limit: "The lab's policy does not let it start now.",
  starting: 'about to start'
};

export function discreet(status: Status, others: Others): Status {
  if (others === 'all') {
    return status;
  }
  const strangers = new Map<string, string>();
  const called = (user: string) => {
    const known = strangers.get(user) ?? `user ${strangers.size + 1}`;
    strangers.set(user, known);
    return known;
  };
  const name = (user: string) => (others === 'names' ? user : called(user));
  const hidden = <T extends Claim | Ticket>(item: T): T =>
    item.mine
      ? item
      : { ...item, user: name(item.user), name: 'a job', label: '' };
  const mine = new Set(
    [...status.claims, ...status.queue]
      .filter(item => item.mine)
      .map(item => item.user)
  );
  // Who waits for a device of mine stands in my job's reason, once its turn is about to end.
  const leaving = new Set(
    status.claims
      .filter(({ mine, leaves }) => mine && typeof leaves === 'number')
      .map(({ job }) => job)
  );
  // A remark on somebody else's claim begins with whose it is; that a device lies idle stands with the device, too.
  const strange = [...status.claims, ...status.queue]
    .filter(item => !item.mine)
    .map(item => `${item.user}'s `.toLowerCase());
  return {
    ...status,
    remarks: status.remarks.filter(
      remark => !strange.some(whose => remark.toLowerCase().startsWith(whose))
    ),
    claims: status.claims.map(claim => ({
      ...hidden(claim),
      asked_by: claim.asked_by.map(user =>
        mine.has(user) ? user : name(user)
      )
    })),
    queue: status.queue.map(ticket => ({
      ...hidden(ticket),
      reason: REASONS[ticket.why] ?? 'It waits.',
      expected: ticket.latest === null ? '' : ticket.expected
    })),
    jobs: status.jobs.map(job =>
      job.state === 'queued'
        ? { ...job, reason: '' }
        : leaving.has(job.id)
          ? { ...job, reason: 'Its turn is about to end.' }
          : job
    ),
    devices: status.devices.map(device => ({
      ...device,
      processes: [],
      room: {
        ...device.room,
        strangers: [],
        held_for: device.room.held_for && 'a job that waits'
      },
      parts: device.parts.map(part =>
        part.user && part.kind !== 'mine'
          ? { ...part, user: name(part.user) }
          : part
      )
    }))
  };
}
