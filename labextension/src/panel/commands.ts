/** What can be done, as commands: for the buttons, the palette and shortcuts alike. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import {
  Dialog,
  ICommandPalette,
  InputDialog,
  showDialog
} from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { GpufitModel } from '../model/model';
import { contentsPath } from '../model/paths';
import { Job, Verb, VERBS, WORDS } from '../words/schema';
import { hasEnded } from '../words/states';
import { deviceWords, formatDuration, stepWords } from '../words/units';

const CATEGORY = 'GPUs and jobs';
type Arguments = ReadonlyPartialJSONObject; // {job: its id, to: a device}; without a job, the user is asked

const LABELS: Record<string, string> = Object.fromEntries([
  ...VERBS.map(verb => [verb, WORDS[verb].command]),
  ['log', 'Open the Log of a Job']
]);

export function addCommands(options: {
  app: JupyterFrontEnd;
  model: GpufitModel;
  palette: ICommandPalette | null;
  openLog: (job: Pick<Job, 'id' | 'name'>) => void;
  show: () => void;
}): void {
  const { app, model, palette, openLog, show } = options;
  const { commands } = app;
  commands.addCommand('gpufit:show', {
    label: 'Show GPUs and Jobs',
    execute: show
  });
  commands.addCommand('gpufit:notebook', {
    label: 'Open the Notebook of a Job',
    execute: async ({ path }) => {
      const found = contentsPath(
        String(path),
        PageConfig.getOption('serverRoot')
      );
      await commands.execute('docmanager:open', { path: found });
    }
  });
  for (const [word, label] of Object.entries(LABELS)) {
    const verb = word as Verb | 'log';
    commands.addCommand(`gpufit:${verb}`, {
      label,
      isEnabled: ({ job }) => !!job || candidates(model, verb).length > 0,
      execute: async args => {
        if (verb === 'log' && args.job && args.name) {
          // When tabs are restored, nothing has been read yet.
          openLog({ id: String(args.job), name: String(args.name) });
          return;
        }
        const job = await chosen(model, verb, label, args);
        if (job && verb === 'log') {
          openLog(job);
        } else if (job && verb !== 'log') {
          await act(model, job, verb, String(args.to ?? ''));
        }
      }
    });
    palette?.addItem({ command: `gpufit:${verb}`, category: CATEGORY });
  }
  palette?.addItem({ command: 'gpufit:show', category: CATEGORY });
  model.stateChanged.connect(() => {
    const known = Object.keys(LABELS)
      .map(verb => candidates(model, verb as Verb | 'log').length > 0)
      .join();
    // The palette draws all of itself again each time.
    if (known !== enabled) {
      enabled = known;
      commands.notifyCommandChanged();
    }
  });
  let enabled = '';
}

async function act(
  model: GpufitModel,
  job: Job,
  action: Verb,
  to: string
): Promise<void> {
  const meant = action === 'stop' ? await confirmed(model, job) : action;
  const target = meant === 'move' ? to || (await chosenTarget(job)) : '';
  if (meant && (meant !== 'move' || target)) {
    await model.act(job, meant, target);
  }
}

/** The job that is meant, or the only one with which it can be done, or the one that the user picks. */
async function chosen(
  model: GpufitModel,
  verb: Verb | 'log',
  label: string,
  args: Arguments
): Promise<Job | null> {
  const jobs = model.status?.jobs ?? [];
  if (args.job) {
    return jobs.find(({ id }) => id === args.job) ?? null;
  }
  const possible = candidates(model, verb);
  const lines = possible.map(({ name, id, state }) => `${name} (${id}), ${state}`);
  if (possible.length < 2) {
    return possible[0] ?? null;
  }
  return possible[await picked(label, 'Which job?', lines)] ?? null;
}

function candidates(model: GpufitModel, verb: Verb | 'log'): Job[] {
  const jobs = [...(model.status?.jobs ?? [])].reverse();
  switch (verb) {
    case 'log':
      return jobs;
    case 'move':
      return jobs.filter(({ can }) => can.move.some(({ ok }) => ok));
    default:
      return jobs.filter(({ can }) => can[verb] === '');
  }
}

async function chosenTarget(job: Job): Promise<string> {
  const targets = job.can.move.filter(({ ok }) => ok);
  const words = targets.map(({ device }) => deviceWords(device));
  const at = await picked(`${WORDS.move.label} ${job.name}`, 'Where to?', words);
  return targets[at]?.device ?? '';
}

async function picked(
  title: string,
  label: string,
  items: string[]
): Promise<number> {
  const answer = await InputDialog.getItem({ title, label, items });
  return answer.button.accept ? items.indexOf(answer.value ?? '') : -1;
}

/** What is meant by a stop: to lose what is not saved, or to save it first. */
async function confirmed(known: GpufitModel, job: Job): Promise<Verb | null> {
  const { can, checkpoint, name } = job;
  const now = known.status?.time ?? 0;
  const rest = checkpoint
    ? `What it did since ${stepWords(checkpoint.step)}, ${formatDuration(Math.max(0, now - checkpoint.time))} ago, is lost; it can be resumed from there.`
    : `It has no checkpoint: what it did so far is lost.`;
  const model = job.kind === 'model';
  const gentle = Dialog.okButton(
    model
      ? {
          label: 'Release',
          caption: 'Calls that wait are answered first.'
        }
      : {
          label: 'Save and stop',
          caption: 'It ends at its next safe point, and can be resumed from there.'
        }
  );
  const said = model
    ? 'Calls that wait fail. It can be resumed from its file.'
    : `Its training ends now. ${rest}`;
  const saved = can.release === '' ? [gentle] : [];
  const answer = await showDialog({
    title: `${WORDS.stop.label} ${name}?`,
    body: hasEnded(job) ? '' : said,
    buttons: [Dialog.cancelButton(), ...saved, Dialog.warnButton({ label: WORDS.stop.label })],
    defaultButton: 0
  });
  if (!answer.button.accept) {
    return null;
  }
  return answer.button.label === gentle.label ? 'release' : 'stop';
}
