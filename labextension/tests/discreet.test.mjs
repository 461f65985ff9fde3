import assert from 'node:assert/strict';
import test from 'node:test';

import { discreet } from '../lib/words/discreet.js';

const STATUS = {
  remarks: ['Bob\'s secret holds 0 and has computed nothing since 14:00.', 'The policy is ignored.'],
  claims: [
    { mine: true, user: 'ada', name: 'bert', label: 'a.ipynb', asked_by: ['bob'], job: 'leaves', leaves: 9 },
    { mine: false, user: 'bob', name: 'secret', label: 'b.ipynb', asked_by: ['ada', 'eve'] }
  ],
  queue: [{ mine: false, user: 'eve', name: 'hidden', label: 'c.ipynb', why: 'held', reason: "bob's secret holds 0" }],
  jobs: [
    { id: 'waits', state: 'queued', reason: "bob's secret holds 0" },
    { id: 'failed', state: 'failed', reason: 'KeyError' },
    { id: 'leaves', state: 'running', reason: "is saved at 14:05: eve's hidden waits" }
  ],
  devices: [
    {
      processes: [{ pid: 1, user: 'bob' }],
      room: { strangers: ['bob'], held_for: "eve's hidden" },
      parts: [{ user: 'bob', kind: 'others' }, { user: 'ada', kind: 'mine' }]
    }
  ]
};

test('all is shown where all is wanted', () => {
  assert.equal(discreet(STATUS, 'all'), STATUS);
});

for (const others of ['names', 'none']) {
  test(`of others, ${others} and nothing of their jobs`, () => {
    const text = JSON.stringify(discreet(STATUS, others));
    for (const word of ['secret', 'hidden', 'b.ipynb', 'c.ipynb', ...(others === 'none' ? ['bob', 'eve'] : [])]) {
      assert.ok(!text.includes(word), `${word} in ${text}`);
    }
    assert.ok(text.includes('The policy is ignored') && !/Bob/.test(text));
    assert.ok(text.includes('bert') && text.includes('KeyError'));
  });
}

test('somebody who is called by a number is called by the same one everywhere', () => {
  const { claims, devices } = discreet(STATUS, 'none');
  assert.equal(claims[1].user, devices[0].parts[0].user);
  assert.deepEqual(claims[1].asked_by, ['ada', 'user 2']);
});
