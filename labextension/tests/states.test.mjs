import assert from 'node:assert/strict';
import test from 'node:test';

import { BEFORE, GOING, LEFT, OVER } from '../lib/words/schema.js';
import { hasEnded, offered, shownState, summary } from '../lib/words/states.js';

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
