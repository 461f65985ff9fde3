import assert from 'node:assert/strict';
import { test } from 'node:test';

import { continued } from '../lib/words/history.js';

const status = (...histories) => ({
  time: 9,
  devices: histories.map((history, i) => ({ uuid: `GPU-${i}`, label: `${i}`, history }))
});
const times = ({ devices }) => devices.map(({ history }) => history.map(([time]) => time));
const at = (...times) => times.map(time => [time, 50, 0]);

test('what is new is put to what was there', () => {
  assert.deepEqual(times(continued(status(at(1, 2), at(1, 2)), status(at(3), at(3)))), [[1, 2, 3], [1, 2, 3]]);
});

test('what was read in between by itself does not stand there twice', () => {
  assert.deepEqual(times(continued(status(at(1, 2, 3)), status(at(3, 4)))), [[1, 2, 3, 4]]);
});

test('a minute is kept', () => {
  const minute = Array.from({ length: 60 }, (_, i) => i);
  const [history] = times(continued(status(at(...minute)), status(at(60))));
  assert.deepEqual([history.length, history[0], history[59]], [60, 1, 60]);
});

test('a clock that was set back leaves nothing of later', () => {
  assert.deepEqual(times(continued(status(at(7, 8, 9)), status(at(5)))), [[5]]);
});

test('a device that is new has what the message tells of it; nothing known before is no trouble', () => {
  assert.deepEqual(times(continued(status(at(1)), status(at(), at(2)))), [[1], [2]]);
  assert.deepEqual(times(continued(null, status(at(2)))), [[2]]);
});
