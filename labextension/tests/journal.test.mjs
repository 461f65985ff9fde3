/** Several who follow one job over one connection. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Signal } from '@lumino/signaling';

import { Follower } from '../lib/model/journal.js';

/** One WebSocket, whose messages the test delivers. */
class Events {
  open = true;
  sent = [];
  arrived = new Signal(this);
  changed = new Signal(this);
  hold = () => ({ dispose() {} });
  send = message => this.sent.push(message);

  /** Entries on their way, which answer the question that was the last one when they were sent. */
  entries(...numbers) {
    const { question } = this.sent.findLast(message => message.follow).follow;
    const entries = numbers.map(number => ({ number, time: 0, event: { kind: 'text' } }));
    return { type: 'entries', job: 'j', entries, ended: false, question };
  }
}

function follow(events, after) {
  const numbers = [];
  const follower = new Follower({}, events, 'j', after);
  follower.came.connect((_, entries) => numbers.push(...entries.map(({ number }) => number)));
  return { numbers, follower };
}

test('what was sent to somebody before is not all there is to one who came after', () => {
  const events = new Events();
  const first = follow(events, 2);
  events.arrived.emit(events.entries(3));
  const onItsWay = events.entries(4);
  const second = follow(events, -5000);

  events.arrived.emit(onItsWay);
  events.arrived.emit(events.entries(1, 2, 3, 4));

  assert.deepEqual(second.numbers, [1, 2, 3, 4]);
  assert.deepEqual(first.numbers, [3, 4]);
  first.follower.dispose();
  second.follower.dispose();
});
