/** The reader's settings, as schema/panel.json describes them. */

import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { Others } from '../words/discreet';
import { Rules } from '../words/news';

export interface Preferences {
  refresh: number; // seconds between two readings; 1: as they come
  others: Others;
  notify: Rules;
}

export const DEFAULTS: Preferences = {
  refresh: 1,
  others: 'all',
  notify: { ended: true, failed: true, device: true, waiting: 10 }
};

export function preferences(
  settings: ISettingRegistry.ISettings | null
): Preferences {
  const chosen = (settings?.composite ?? {}) as Partial<Preferences>;
  return {
    ...DEFAULTS,
    ...chosen,
    notify: { ...DEFAULTS.notify, ...chosen.notify }
  };
}
