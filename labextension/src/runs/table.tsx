/** All my runs as a table: sorted by any column, marked to be drawn over each other, taken away as CSV. */

import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { GpufitModel } from '../model/model';
import { asCsv, COLUMNS, sorted } from '../words/table';
import { Charts } from './charts';

export function RunsTable(props: {
  model: GpufitModel;
  commands: CommandRegistry;
}): JSX.Element {
  const { model, commands } = props;
  const [by, setBy] = React.useState({ key: 'began', falling: true });
  const [marked, setMarked] = React.useState<ReadonlySet<string>>(new Set());
  const now = model.status?.time ?? 0;
  const jobs = sorted(model.status?.jobs ?? [], by.key, by.falling, now);
  const drawn = jobs.filter(({ id }) => marked.has(id));
  const mark = (ids: string[], on: boolean) => {
    const next = new Set(marked);
    ids.forEach(id => (on ? next.add(id) : next.delete(id)));
    setMarked(next);
  };
  return (
    <>
      <div className="jp-gpufit-run-head">
        <h2>Runs</h2>
        <button type="button" className="jp-gpufit-button" onClick={() => save(asCsv(jobs, now))}>
          Download as CSV
        </button>
        <span className="jp-gpufit-quiet">Marked runs are drawn over each other below.</span>
      </div>
      <div
        className={drawn.length ? 'jp-gpufit-wide' : 'jp-gpufit-wide jp-gpufit-alone'}
        tabIndex={0}
        role="region"
        aria-label="Table of runs"
      >
        <table className="jp-gpufit-table">
          <thead>
            <tr>
              <th scope="col">
                <input
                  type="checkbox"
                  aria-label="Mark all runs"
                  checked={jobs.length > 0 && drawn.length === jobs.length}
                  onChange={event => mark(jobs.map(({ id }) => id), event.target.checked)}
                />
              </th>
              {COLUMNS.map(({ key, title }) => (
                <th
                  key={key}
                  scope="col"
                  aria-sort={by.key !== key ? undefined : by.falling ? 'descending' : 'ascending'}
                >
                  <button
                    type="button"
                    onClick={() => setBy({ key, falling: by.key === key ? !by.falling : false })}
                  >
                    {title}
                    <span aria-hidden>{by.key !== key ? '' : by.falling ? ' ↓' : ' ↑'}</span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {jobs.map(job => (
              <tr key={job.id}>
                <td>
                  <input
                    type="checkbox"
                    aria-label={`Draw ${job.name} (${job.id})`}
                    checked={marked.has(job.id)}
                    onChange={event => mark([job.id], event.target.checked)}
                  />
                </td>
                {COLUMNS.map(({ key, value, words }) => (
                  <td key={key}>
                    {key === 'name' ? (
                      <button
                        type="button"
                        className="jp-gpufit-link"
                        onClick={() => void commands.execute('gpufit:run', { job: job.id, name: job.name })}
                      >
                        {job.name}
                      </button>
                    ) : (
                      words(value(job, now), now)
                    )}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {!jobs.length && <p className="jp-gpufit-quiet">None yet.</p>}
      {drawn.length > 0 && <Charts jobs={drawn} model={model} group="gpufit-runs" claimed={null} />}
    </>
  );
}

function save(text: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
  link.download = 'gpufit-runs.csv';
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
