import assert from 'node:assert/strict';
import test from 'node:test';

import * as units from '../lib/words/units.js';

test('bytes are written as the command line writes them', () => {
  assert.deepEqual([0, 1023, 1024, 36 * 2 ** 30].map(units.formatBytes), ['0 B', '1023 B', '1.0 KiB', '36.0 GiB']);
  assert.equal(units.outOf(30.4 * 2 ** 30, 36 * 2 ** 30), '30.4 of 36.0 GiB');
  assert.equal(units.outOf(512 * 2 ** 20, 36 * 2 ** 30), '512.0 MiB of 36.0 GiB');
});

test('durations have two units at most, and no seconds from ten minutes on', () => {
  const said = [0, 59.9, 61, 599, 600, 601, 3600, 3660, 90000].map(units.formatDuration);
  assert.deepEqual(said, ['0 s', '59 s', '1 min 1 s', '9 min 59 s', '10 min', '10 min', '1 h', '1 h 1 min', '1 d 1 h']);
});

test('counts, figures and paces read as people say them', () => {
  assert.equal(units.stepWords(12345), 'step 12,345');
  assert.deepEqual([null, 0.123456, 1e-7].map(units.formatFigure), ['not finite', '0.1235', '1e-07']);
  assert.deepEqual([2.06, 0.3125].map(units.formatPace), ['2.1 steps/s', '3.2 s/step']);
  assert.deepEqual([1, 2, 3, 4, 11, 22, 113].map(units.ordinal), ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']);
  assert.deepEqual(['1', 'cpu:0'].map(units.deviceWords), ['GPU 1', 'cpu:0']);
  assert.deepEqual(['0, 1, 2', 'cpu:0, cpu:1'].map(units.deviceWords), ['GPU 0, 1 and 2', 'cpu:0 and cpu:1']);
});

test('a figure has four digits, as units.py writes it', () => {
  const said = [0, -0.5, 0.123456, 2e-5, 1e-7, 12.5, 9999.6, 12345.6, 123456, 1234567].map(units.formatFigure);
  assert.deepEqual(said, FIGURES);
});

test('a moment is told from others of the same name', () => {
  const at = (...parts) => new Date(...parts).getTime() / 1000;
  const now = at(2026, 10, 22, 15, 0);
  assert.equal(units.formatMoment(at(2026, 10, 22, 9, 5), now), '09:05');
  assert.equal(units.formatMoment(at(2026, 10, 21, 14, 2), now), 'Nov 21, 14:02');
  assert.equal(units.formatMoment(at(2025, 10, 21, 14, 2), now), 'Nov 21 2025, 14:02');
});

const FIGURES = ['0', '-0.5', '0.1235', '2e-05', '1e-07', '12.5', '10,000', '12,346', '123,456', '1.235e+06'];
