/** Who waits, in the order of service, and why. */

import * as React from 'react';

import { Ticket } from '../words/schema';
import { memo, Section, Sentence, Since } from './common';

export function Queue({ queue }: { queue: Ticket[] }): JSX.Element {
  return (
    <Section title="Queue" count={queue.length} empty="Nobody waits." ordered>
      {queue.map(ticket => (
        <Place key={ticket.id} ticket={ticket} />
      ))}
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
