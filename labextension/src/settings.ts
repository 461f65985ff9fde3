/** The reader's settings, as schema/panel.json describes them. */

import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { Others } from './discreet';

/** When to tell of a job although nobody looks at the panel. */
export interface Rules {
  ended: boolean;
  failed: boolean;
  device: boolean; // it got its device
  waiting: number; // minutes after which a job that still waits is told of; 0: never
}

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
