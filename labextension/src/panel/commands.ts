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

type Opened = 'log' | 'run';

const LABELS: Record<string, string> = Object.fromEntries([
  ...VERBS.map(verb => [verb, WORDS[verb].command]),
  ['log', 'Open the Log of a Job'],
  ['run', 'Open the Page of a Run']
]);

export function addCommands(options: {
  app: JupyterFrontEnd;
  model: GpufitModel;
  palette: ICommandPalette | null;
  openLog: (job: Pick<Job, 'id' | 'name'>) => void;
  openRun: (job: Pick<Job, 'id' | 'name'>) => void; // without an id, the table of all
  show: () => void;
}): void {
  const { app, model, palette, openLog, openRun, show } = options;
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
  commands.addCommand('gpufit:remove', {
    label: 'Remove Jobs That Have Ended',
    isEnabled: () => !!model.status?.jobs.some(hasEnded),
    execute: async ({ job: wanted }) => {
      const ended = (model.status?.jobs ?? []).filter(hasEnded);
      const chosen = await removed(ended.filter(({ id }) => !wanted || id === wanted));
      if (chosen.length) {
        await model.remove(chosen.map(({ id }) => id));
      }
    }
  });
  palette?.addItem({ command: 'gpufit:remove', category: CATEGORY });
  commands.addCommand('gpufit:end', {
    label: 'End a Command of gpufit run',
    execute: ({ claim, name }) => endCommand(model, String(claim), String(name))
  });
  for (const [word, label] of Object.entries(LABELS)) {
    const verb = word as Verb | Opened;
    commands.addCommand(`gpufit:${verb}`, {
      label,
      isEnabled: ({ job }) => !!job || candidates(model, verb).length > 0,
      execute: async args => {
        if (args.table) {
          openRun({ id: '', name: '' });
          return;
        }
        const opens = { log: openLog, run: openRun }[word];
        if (opens && args.job && args.name) {
          // When tabs are restored, nothing has been read yet.
          opens({ id: String(args.job), name: String(args.name) });
          return;
        }
        const job = await chosen(model, verb, label, args);
        if (job && opens) {
          opens(job);
        } else if (job) {
          await act(model, job, verb as Verb, String(args.to ?? ''));
        }
      }
    });
    palette?.addItem({ command: `gpufit:${verb}`, category: CATEGORY });
  }
  commands.addCommand('gpufit:runs', {
    label: 'Show the Table of Runs',
    execute: () => openRun({ id: '', name: '' })
  });
  palette?.addItem({ command: 'gpufit:show', category: CATEGORY });
  palette?.addItem({ command: 'gpufit:runs', category: CATEGORY });
  model.stateChanged.connect(() => {
    const known = Object.keys(LABELS)
      .map(verb => candidates(model, verb as Verb | Opened).length > 0)
      .join();
    // The palette draws all of itself again each time.
    if (known !== enabled) {
      enabled = known;
      commands.notifyCommandChanged();
    }
  });
  let enabled = '';
}

/** A command saves nothing by itself that we would know of. */
export async function endCommand(model: GpufitModel, claim: string, name: string): Promise<void> {
  const answer = await showDialog({
    title: `End ${name}?`,
    body: 'It is told to end (SIGTERM). What it has not saved by itself is lost. One that waits leaves the queue.',
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: 'End' })],
    defaultButton: 0
  });
  if (answer.button.accept) {
    await model.giveUp(claim);
  }
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
  verb: Verb | Opened,
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

function candidates(model: GpufitModel, verb: Verb | Opened): Job[] {
  const jobs = [...(model.status?.jobs ?? [])].reverse();
  switch (verb) {
    case 'log':
    case 'run':
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

/** Which of these go for good: their checkpoints are all that there is of a training. */
async function removed(jobs: Job[]): Promise<Job[]> {
  const resumable = jobs.filter(({ can }) => can.resume === '');
  const rest = jobs.filter(job => !resumable.includes(job));
  const what = jobs.length === 1 ? jobs[0].name : `${jobs.length} jobs that have ended`;
  const which = resumable.length === jobs.length ? (jobs.length === 1 ? 'It' : 'All of them') : `${resumable.length} of them`;
  const lost = resumable.length ? ` ${which} can be resumed, and then no more.` : '';
  const some = Dialog.okButton({ label: `Keep what can be resumed` });
  const answer = await showDialog({
    title: `Remove ${what}?`,
    body: `Output, curves and checkpoints are deleted.${lost}`,
    buttons: [
      Dialog.cancelButton(),
      ...(resumable.length && rest.length ? [some] : []),
      Dialog.warnButton({ label: 'Remove' })
    ],
    defaultButton: 0
  });
  if (!answer.button.accept || !jobs.length) {
    return [];
  }
  return answer.button.label === some.label ? rest : jobs;
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
  const hard = saved.length && !model ? 'Stop without saving' : WORDS.stop.label;
  const answer = await showDialog({
    title: `${WORDS.stop.label} ${name}?`,
    body: hasEnded(job) ? '' : said,
    buttons: [Dialog.cancelButton(), ...saved, Dialog.warnButton({ label: hard })],
    defaultButton: 0
  });
  if (!answer.button.accept) {
    return null;
  }
  return answer.button.label === gentle.label ? 'release' : 'stop';
}
