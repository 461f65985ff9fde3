import assert from 'node:assert/strict';
import test from 'node:test';

import { commands } from '../lib/words/holds.js';

const claim = { id: 'c', name: 'train', label: 'python train.py', since: 5, devices: ['0', 'cpu:1'], asked_by: ['bob'], mine: true, job: 'x' };
const ticket = { id: 'q', name: 'eval', label: 'python eval.py', since: 7, position: 2, reason: 'all are held', mine: true, job: 'y' };

test('what I hold or wait for without a job is a command, and nothing of anybody else is', () => {
  const others = { ...claim, id: 'o', mine: false };
  const found = commands({ claims: [claim, others], queue: [ticket, { ...ticket, job: 'j' }], jobs: [{ id: 'j' }] });
  assert.deepEqual(found, [
    { id: 'c', name: 'train', line: 'python train.py', state: 'running', since: 5, device: 'GPU 0, cpu:1', waits: '', askers: 'bob' },
    { id: 'q', name: 'eval', line: 'python eval.py', state: 'queued', since: 7, device: '', waits: '2nd in the queue: all are held', askers: '' }
  ]);
});
