/** Who waits, in the order of service, and why. */

import * as React from 'react';

import { Ticket } from '../words/schema';
import { memo, Section, Sentence, Since } from './common';

const MOST = 8; // a longer queue would have the devices below the first screen
const FIRST = 5; // of a longer one, and one's own

export function Queue({ queue }: { queue: Ticket[] }): JSX.Element {
  const [open, setOpen] = React.useState(false);
  const long = queue.length > MOST;
  const shown = long && !open ? queue.filter(({ mine, position }) => mine || position <= FIRST) : queue;
  return (
    <Section title="Queue" count={queue.length} empty="Nobody waits." ordered>
      {shown.map(ticket => (
        <Place key={ticket.id} ticket={ticket} />
      ))}
      {long && (
        <li className="jp-gpufit-card">
          <button type="button" className="jp-gpufit-link" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? 'Show fewer' : `Show ${queue.length - shown.length} more`}
          </button>
        </li>
      )}
    </Section>
  );
}

const Place = memo(({ ticket }: { ticket: Ticket }): JSX.Element => {
  const { position, user, mine, name, label, wants, since, reason, expected } = ticket;
  return (
    <li className="jp-gpufit-card jp-gpufit-ticket" data-mine={mine}>
      <div className="jp-gpufit-line">
        <span className="jp-gpufit-position">{position}</span>
        <span className="jp-gpufit-name" title={label}>
          <b>{mine ? 'you' : user}</b> {name}
        </span>
        <span className="jp-gpufit-quiet">{wants}</span>
      </div>
      <p className="jp-gpufit-quiet jp-gpufit-under">
        <Since time={since} />: <Sentence text={reason} />
      </p>
      {expected && (
        <p className="jp-gpufit-quiet jp-gpufit-under">
          <Sentence text={`${expected.charAt(0).toUpperCase()}${expected.slice(1)}.`} />
        </p>
      )}
    </li>
  );
});
