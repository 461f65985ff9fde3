/** What people are told although they do not look. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { asking } from '../lib/words/news.js';

const claim = (asked_by, said = {}) => ({ id: 'c', mine: true, job: 'j', name: 'bert', devices: ['1'], asked_by, ...said });
const texts = (status, known = new Set()) => asking({ jobs: [], ...status }, known).map(({ text }) => text);

test('who asks for what I hold is told once, and the next one by themselves', () => {
  const known = new Set();
  assert.deepEqual(texts({ claims: [claim(['bob'])] }, known), ['bob asks for GPU 1, which bert holds.']);
  assert.deepEqual(texts({ claims: [claim(['bob'])] }, known), []);
  assert.deepEqual(texts({ claims: [claim(['bob', 'eve'])] }, known), ['eve asks for GPU 1, which bert holds.']);
});

test('who asked, went and asks again is told again', () => {
  const known = new Set();
  texts({ claims: [claim(['bob'])] }, known);
  texts({ claims: [claim([])] }, known);
  assert.deepEqual(texts({ claims: [claim(['bob'])] }, known), ['bob asks for GPU 1, which bert holds.']);
});

test('two at once are told at once; what others hold is not', () => {
  const both = claim(['bob', 'eve'], { devices: ['0', 'cpu:1'] });
  assert.deepEqual(texts({ claims: [both] }), ['bob and eve ask for GPU 0 and cpu:1, which bert holds.']);
  assert.deepEqual(texts({ claims: [claim(['bob'], { mine: false })] }), []);
});

test('the job that can be released is named, and a command has none', () => {
  const job = { id: 'j', name: 'bert' };
  assert.equal(asking({ claims: [claim(['bob'])], jobs: [job] }, new Set())[0].job, job);
  assert.equal(asking({ claims: [claim(['bob'])], jobs: [] }, new Set())[0].job, null);
});
