/** The colours of those who hold a device. */

import * as React from 'react';

import { Part } from '../words/schema';

const COLOURS = 7; // of JupyterLab's for other users
const colours = new Map<string, number>(); // of users, as they were first seen: it stays while the page does

/** The colour that a part has, in the bar and beside its holder's name. */
export function colour({ kind, user }: Pick<Part, 'kind' | 'user'>): React.CSSProperties {
  if (kind !== 'claim') {
    return {}; // the style sheet's
  }
  if (!colours.has(user)) {
    colours.set(user, (colours.size % COLOURS) + 1);
  }
  return { background: `var(--jp-collaborator-color${colours.get(user)})` };
}
