import assert from 'node:assert/strict';
import test from 'node:test';

import * as plot from '../lib/words/plot.js';

const POINTS = [[1, 4], [2, 1], [3, null], [4, 2]];
const BREAK = { step: 2, left: 120, back: 300 };
const CLOCK = [[0, 100], [2, 120], [4, 320]];

test('a smoothed line begins where the line begins, and keeps its holes', () => {
  assert.deepEqual(plot.smoothed(POINTS, 0), POINTS);
  const [first, second, hole] = plot.smoothed(POINTS, 0.5);
  assert.deepEqual([first, hole], [[1, 4], [3, null]]);
  assert.deepEqual(second, [2, 2]);
});

test('the best is the least of a loss, the largest of an accuracy, and nothing of what nobody knows', () => {
  assert.deepEqual(plot.best('val_loss', POINTS), [2, 1]);
  assert.deepEqual(plot.best('acc', POINTS), [1, 4]);
  assert.equal(plot.best('lr', POINTS), null);
  assert.equal(plot.best('loss', [[1, null]]), null);
});

test('steps have their times, and a line is parted where it had no device', () => {
  assert.deepEqual([0, 1, 2, 3, 9].map(step => plot.timeOf(CLOCK, step)), [100, 110, 120, 220, 320]);
  const parted = plot.parted([[1, 4], [2, 1], [4, 2]], [BREAK], 'step');
  assert.deepEqual(parted, [[1, 4], [2, 1], [3, null], [4, 2]]);
  assert.deepEqual(plot.overTime(parted, { clock: CLOCK }, 100).map(([at]) => at), [10, 20, 120, 220]);
  assert.deepEqual(plot.parted([[20, 1], [220, 2]], [BREAK], 'time', 100), [[20, 1], [120, null], [220, 2]]);
  assert.deepEqual(plot.gapsOf({ breaks: [BREAK] }, 'time', 100), [20]);
});

test('a picture is asked for as often as something new can be seen in it', () => {
  assert.deepEqual([0, 6000, 90_000].map(plot.pause), [3, 6, 30]);
});

test('epochs begin at steps, and at the times of these', () => {
  const curves = { laps: [[0, 1], [2, 2]], clock: CLOCK };
  assert.deepEqual(plot.lapsOf(curves, 'step'), [{ at: 0, text: '1' }, { at: 2, text: '2' }]);
  assert.deepEqual(plot.lapsOf(curves, 'time', 100).map(({ at }) => at), [0, 20]);
});

test('several runs stand on one axis: no point is not a hole', () => {
  const found = plot.aligned([[[1, 10], [3, 30]], [[1, 5], [2, null]]]);
  assert.deepEqual(found, [[1, 2, 3], [10, undefined, 30], [5, null, undefined]]);
  assert.deepEqual(plot.positive([[1, 0], [2, 0.5], [3, null]]), [[1, null], [2, 0.5], [3, null]]);
});

test('many lines share the places of a picture, and keep their spikes and holes', () => {
  const lines = [0, 1, 2].map(i => Array.from({ length: 3000 }, (_, k) => [3 * k + i, k === 700 ? 99 : k === 900 ? null : 1]));
  const [places, ...columns] = plot.aligned(lines);
  assert.ok(places.length <= 2002, String(places.length));
  for (const column of columns) {
    assert.equal(Math.max(...column.filter(y => typeof y === 'number')), 99);
    assert.ok(column.includes(null));
  }
});
