import assert from 'node:assert/strict';
import test from 'node:test';

import { runs } from '../lib/words/curves.js';
import { freeBytes, idleWords, partWords } from '../lib/words/devices.js';

const GIB = 2 ** 30;

test('who holds a device and computes nothing is told of after a while', () => {
  assert.equal(idleWords({ idle_since: null }, 9000), '');
  assert.equal(idleWords({ idle_since: 8800 }, 9000), '');
  assert.equal(idleWords({ idle_since: 7800 }, 9000), '0 % for 20 min');
});

test('a claim says what is used of it', () => {
  const claim = { kind: 'claim', user: 'ada', bytes: 12 * GIB, used: 3 * GIB };
  assert.equal(partWords(claim), 'ada 12.0 GiB (uses 3.0 GiB)');
  assert.equal(partWords({ ...claim, used: null }), 'ada 12.0 GiB');
  assert.equal(freeBytes({ parts: [claim, { kind: 'free', bytes: GIB }] }), GIB);
});

test('no line goes over a cut or a hole', () => {
  const points = [[1, 1], [2, 2], [3, 3], [4, null], [5, 5]];
  assert.deepEqual(runs(points, [2, 2.5]), [[[1, 1], [2, 2]], [[3, 3]], [[5, 5]]]);
  assert.deepEqual(runs(points, [0, 9]), [[[1, 1], [2, 2], [3, 3]], [[5, 5]]]);
  assert.deepEqual(runs([], [1]), []);
});
