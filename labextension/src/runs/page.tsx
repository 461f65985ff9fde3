/** The page of one run: its pictures, its device, its cell, how it was started, its checkpoints; others beside it. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { GpufitModel } from '../model/model';
import { Device, Job, OVER, RunFacts } from '../words/schema';
import { endWords, hasEnded, placed, shownState } from '../words/states';
import { deviceWords, formatBytes, formatFigure, formatMoment, stepWords } from '../words/units';
import { Charts } from './charts';
import { Plot, Scale } from './plot';

const AGO: Scale = { write: seconds => `${Math.round(seconds)} s` };
const PERCENT: Scale = { write: percent => `${formatFigure(percent)} %`, range: [0, 100] };

export function RunPage(props: {
  id: string;
  model: GpufitModel;
  commands: CommandRegistry;
  log: MakeLog;
}): JSX.Element {
  const { id, model, commands, log } = props;
  const jobs = model.status?.jobs ?? [];
  const job = jobs.find(one => one.id === id);
  const [beside, setBeside] = React.useState<string[]>([]);
  const facts = useFacts(model, id, job?.checkpoint?.time);
  if (!job) {
    return <p className="jp-gpufit-quiet">{model.status ? 'This run was removed.' : 'Reading…'}</p>;
  }
  const now = model.status?.time ?? 0;
  const others = [...jobs].reverse().filter(one => one.id !== id);
  const compared = others.filter(one => beside.includes(one.id));
  const run = (command: string) => void commands.execute(`gpufit:${command}`, { job: id, name: job.name });
  return (
    <>
      <div className="jp-gpufit-run-head">
        <h2>{job.name}</h2>
        <span className="jp-gpufit-state" data-state={job.state}>
          {job.device && !hasEnded(job) ? placed(shownState(job), job.device) : shownState(job)}
        </span>
        <span className="jp-gpufit-quiet">{endWords(job, now)}</span>
        <button type="button" className="jp-gpufit-button" onClick={() => run('log')}>
          Open log
        </button>
        <button type="button" className="jp-gpufit-button" onClick={() => void commands.execute('gpufit:runs')}>
          All runs
        </button>
        {others.length > 0 && (
          <label>
            Compare with{' '}
            <select
              value=""
              onChange={event => setBeside(toggled(beside, event.target.value))}
            >
              <option value="">choose a run…</option>
              {others.map(one => (
                <option key={one.id} value={one.id}>
                  {beside.includes(one.id) ? '✓ ' : ''}
                  {one.name}, {formatMoment(one.began ?? one.created, now)}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      {job.reason && <p className="jp-gpufit-reason">{job.reason}</p>}
      <Charts
        jobs={[job, ...compared]}
        model={model}
        group={`gpufit-run-${id}`}
        claimed={facts?.claimed ?? null}
      />
      <Devices job={job} model={model} />
      <Log id={id} name={job.name} make={log} />
      {facts && <About facts={facts} job={job} now={now} resume={from => void goOn(model, job, from)} />}
    </>
  );
}

/** Resume from one of its checkpoints; from an earlier one only when that is meant. */
async function goOn(model: GpufitModel, job: Job, from: RunFacts['checkpoints'][number]): Promise<void> {
  if (from.resumed) {
    await model.act(job, 'resume');
    return;
  }
  const answer = await showDialog({
    title: `Go back to ${stepWords(from.step)}?`,
    body: `${job.name} trains again what came after it. Its later checkpoints stay until new ones take their place.`,
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Resume from here' })],
    defaultButton: 0
  });
  if (answer.button.accept) {
    await model.act(job, 'resume', from.name);
  }
}

/** Makes what shows a job's log. */
export type MakeLog = (job: { id: string; name: string }) => Widget;

/** What it wrote, as its own tab shows it. */
function Log({ id, name, make }: { id: string; name: string; make: MakeLog }): JSX.Element {
  const host = React.useRef<HTMLElement>(null);
  React.useEffect(() => {
    const log = make({ id, name });
    Widget.attach(log, host.current!);
    const size = new ResizeObserver(() => MessageLoop.sendMessage(log, Widget.ResizeMessage.UnknownSize));
    size.observe(host.current!);
    return () => {
      size.disconnect();
      log.dispose();
    };
  }, [id]);
  return (
    <section aria-label="Log" ref={host}>
      <h3>Log</h3>
    </section>
  );
}

function toggled(ids: string[], id: string): string[] {
  return ids.includes(id) ? ids.filter(one => one !== id) : [...ids, id];
}

/** Asked again when there is another checkpoint. */
function useFacts(model: GpufitModel, id: string, saved: number | undefined): RunFacts | null {
  const [facts, setFacts] = React.useState<RunFacts | null>(null);
  React.useEffect(() => {
    let there = true;
    model.facts(id).then(
      found => there && setFacts(found),
      () => undefined // the pictures say what is wrong with the server
    );
    return () => {
      there = false;
    };
  }, [id, saved]);
  return facts;
}

/** How busy its devices were in the last minute: longer than that nobody keeps. */
function Devices({ job, model }: { job: Job; model: GpufitModel }): JSX.Element {
  const labels = OVER.has(job.state) ? [] : job.device.split(', ');
  const devices = (model.status?.devices ?? []).filter(({ label }) => labels.includes(label));
  return (
    <>
      {devices.map(device => (
        <Busy key={device.uuid} device={device} now={model.status?.time ?? 0} />
      ))}
    </>
  );
}

function Busy({ device, now }: { device: Device; now: number }): JSX.Element | null {
  const points = (device.history ?? []).map(([time, busy]): [number, number | null] => [time - now, busy]);
  if (!points.some(([, busy]) => busy !== null)) {
    return null;
  }
  return (
    <Plot
      title={`${deviceWords(device.label)} busy, in the last minute`}
      words={`${deviceWords(device.label)} is busy for ${device.utilisation ?? 0} % of the time`}
      lines={[{ label: 'busy', colour: '#1976d2', points }]}
      x={AGO}
      y={PERCENT}
      group={`gpufit-device-${device.uuid}`}
      range={null}
      onRange={() => undefined}
    />
  );
}

function About(props: {
  facts: RunFacts;
  job: Job;
  now: number;
  resume: (from: RunFacts['checkpoints'][number]) => void;
}): JSX.Element {
  const { facts, job, now, resume } = props;
  const why = job.can.resume;
  return (
    <>
      <section aria-label="Checkpoints">
        <h3>Checkpoints</h3>
        {!facts.checkpoints.length && <p className="jp-gpufit-quiet">None is kept.</p>}
        {facts.checkpoints.length > 0 && (
          <div className="jp-gpufit-wide" tabIndex={0} role="region" aria-label="Table of checkpoints">
            <table className="jp-gpufit-table">
              <thead>
                <tr>
                  <th scope="col">At</th>
                  <th scope="col">Saved</th>
                  <th scope="col">Size</th>
                  <th scope="col">Where</th>
                  <th scope="col">Resume</th>
                </tr>
              </thead>
              <tbody>
                {facts.checkpoints.map(one => (
                  <tr key={one.name}>
                    <td>
                      {stepWords(one.step)}
                      {!one.exact && ', not exact'}
                    </td>
                    <td>
                      {formatMoment(one.time, now)}
                      {one.automatic && ', by itself'}
                    </td>
                    <td>{formatBytes(one.bytes)}</td>
                    <td>{one.where}</td>
                    <td>
                      <button
                        type="button"
                        className="jp-gpufit-button"
                        aria-disabled={why !== ''}
                        title={why}
                        aria-label={[`Resume from ${stepWords(one.step)}`, why].filter(Boolean).join(': ')}
                        onClick={why ? undefined : () => resume(one)}
                      >
                        Resume from here
                      </button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        {facts.checkpoints.length > 1 && (
          <p className="jp-gpufit-quiet">
            The button of the job goes on from the newest; the others are kept in case that breaks, and to go back to.
          </p>
        )}
        {facts.broken.map(text => (
          <p key={text} className="jp-gpufit-problem">
            {text}
          </p>
        ))}
      </section>
      <section aria-label="Cell">
        <h3>Cell</h3>
        <pre className="jp-gpufit-source" tabIndex={0} aria-label="The cell's text">
          {[facts.magic_line, facts.source].filter(Boolean).join('\n')}
        </pre>
      </section>
      <section aria-label="Made with">
        <h3>Made with</h3>
        <dl className="jp-gpufit-facts">
          {[
            ['notebook', job.notebook],
            ['directory', facts.cwd],
            ['claimed', facts.claimed === null ? '' : formatBytes(facts.claimed)],
            ['estimated', facts.foreseen === null ? '' : formatBytes(facts.foreseen)],
            ['job', job.id],
            ...facts.versions.map(({ name, version }) => [name, version])
          ]
            .filter(([, value]) => value)
            .map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ))}
        </dl>
      </section>
    </>
  );
}
