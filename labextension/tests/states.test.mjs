import assert from 'node:assert/strict';
import test from 'node:test';

import { BEFORE, GOING, LEFT, OVER } from '../lib/words/schema.js';
import { endWords, hasEnded, inOrder, offered, ranFor, shownState, summary } from '../lib/words/states.js';

const STATES = [...new Set([...BEFORE, ...GOING, ...LEFT, ...OVER])];
const job = (state, more = {}) => ({
  id: '1',
  name: 'bert',
  state,
  device: '',
  under_way: [],
  progress: { step: 31, total: 50 },
  ...more
});

test('a job that is released has not ended: it waits to go on', () => {
  const ended = STATES.filter(state => hasEnded(job(state)));
  assert.deepEqual(ended, ['done', 'failed', 'stopped', 'lost']);
});

test('each verb has its button where it makes sense, and none is offered beside its opposite', () => {
  for (const state of [...BEFORE, ...GOING]) {
    assert.deepEqual(offered(job(state)), ['checkpoint', 'release', 'move', 'stop'], state);
  }
  for (const state of ['released', 'failed', 'stopped', 'lost']) {
    assert.deepEqual(offered(job(state)), ['resume'], state);
  }
  assert.deepEqual(offered(job('done')), []);
  assert.deepEqual(offered(job('running', { kind: 'model' })), ['release', 'move', 'stop']);
});

test('what is under way is the state that is shown', () => {
  assert.equal(shownState(job('running', { under_way: ['stop'] })), 'stopping');
  assert.equal(shownState(job('lost', { under_way: ['resume'] })), 'resuming');
  assert.equal(shownState(job('done', { under_way: ['stop'] })), 'done');
  assert.equal(shownState(job('saving', { under_way: ['checkpoint'] })), 'saving');
});

test('the line in the status bar is of the job that has come furthest', () => {
  const queue = [{ mine: true, job: '1', position: 2 }];
  const running = job('running', { device: '1' });
  assert.equal(summary({ jobs: [job('queued'), running, job('released')], queue }), 'GPU 1: bert 62 % (+1)');
  assert.equal(summary({ jobs: [job('queued')], queue }), 'bert: 2nd in the queue');
  assert.equal(summary({ jobs: [job('released'), job('done')], queue }), '');
});

test('my jobs in the order in which they matter', () => {
  const jobs = ['done', 'released', 'running', 'failed', 'queued', 'saving'].map((state, id) => job(state, { id }));
  const { here, mine, ended } = inOrder(jobs, () => false);
  assert.equal(here, null);
  assert.deepEqual(mine.map(({ state }) => state), ['saving', 'running', 'queued', 'released']);
  assert.deepEqual(ended.map(({ state }) => state), ['failed', 'done']);
  assert.deepEqual(inOrder(jobs, ({ id }) => id < 2).mine.map(({ id }) => id), [1, 5, 2, 4]);
  const last = inOrder(jobs, ({ state }) => state === 'done');
  assert.deepEqual([last.mine[0].state, last.ended.length], ['done', 1]);
});

test('how long it ran goes on over a move, and not while it waits', () => {
  assert.equal(ranFor(job('running', { since: 100, ran: 50 }), 110), 60);
  assert.equal(ranFor(job('queued', { since: 100, ran: 50 }), 110), 50);
});

test('what has ended says when, how long, how far and how much', () => {
  const moment = new Date(2026, 10, 21, 14, 2).getTime() / 1000;
  const now = moment + 86_400;
  const over = { began: moment, created: moment, ran: 7440, memory: { peak: 2 ** 30 }, progress: { step: 5000 } };
  assert.equal(endWords(job('done', over), now), 'began Nov 21, 14:02, ran 2 h 4 min, 5,000 steps, peak 1.0 GiB');
  const never = { ...over, began: null, memory: null, progress: { step: 0 } };
  assert.equal(endWords(job('stopped', never), now), 'Nov 21, 14:02, it never ran');
});
